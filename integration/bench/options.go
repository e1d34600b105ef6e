package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	short    bool
	rounds   int
	duration time.Duration
	tools    []int
	revision string
	only     []string
	check    bool
	linux    bool
}

// checkedTools is the length of the list that -check is about.
const checkedTools = 50

// shortContenders are those of -short.
var shortContenders = []string{
	nameStatic, nameRespond, nameHit, nameHitGzip, nameHitZstd, nameProxy, nameCallProxy, nameCall, nameFirstEvent,
}

// parseOptions reads the command line.
func parseOptions(args []string, output io.Writer) (*options, error) {
	o := &options{linux: runtime.GOOS == "linux"}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(output)
	var tools, only string
	flags.BoolVar(&o.short, "short", false, "few contenders, 50 tools, rounds of 700ms; less than two minutes")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each contender is measured")
	flags.DurationVar(&o.duration, "duration", 4*time.Second, "how long each contender is measured in a round; 700ms with -short")
	flags.StringVar(&tools, "tools", "5,50,500", "lengths of the lists; 50 with -short")
	flags.StringVar(&o.revision, "revision", legacy, "MCP revision of the clients: "+legacy+" or "+modern)
	flags.StringVar(&only, "only", "", "measure only these: "+strings.Join(names(), ", "))
	flags.BoolVar(&o.check, "check", false, "end with status 1 if a hit at 50 tools costs too much")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("reading arguments: %q is not known", flags.Arg(0))
	}
	if o.short {
		given := make(map[string]bool)
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["duration"] {
			o.duration = 700 * time.Millisecond
		}
		if !given["tools"] {
			tools = "50"
		}
		if !given["only"] {
			only = strings.Join(shortContenders, ",")
		}
	}
	if err := o.parseLists(tools, only); err != nil {
		return nil, err
	}
	return o, o.validate()
}

func (o *options) parseLists(tools, only string) error {
	for field := range strings.SplitSeq(tools, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > 100_000 {
			return fmt.Errorf("reading -tools: %q is not from 1 to 100000", field)
		}
		o.tools = append(o.tools, n)
	}
	for field := range strings.SplitSeq(only, ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		if !slices.Contains(names(), field) {
			return fmt.Errorf("reading -only: %q is not known", field)
		}
		o.only = append(o.only, field)
	}
	return nil
}

func (o *options) validate() error {
	if o.rounds < 1 || o.rounds > 1000 {
		return errors.New("reading -rounds: not from 1 to 1000")
	}
	if o.duration < 100*time.Millisecond || o.duration > time.Minute {
		return errors.New("reading -duration: not from 100ms to 1m")
	}
	if o.revision != legacy && o.revision != modern {
		return fmt.Errorf("reading -revision: %q is not known", o.revision)
	}
	if o.check && (!slices.Contains(o.tools, checkedTools) || !o.wants(nameHit) || !o.wants(nameStatic)) {
		return fmt.Errorf("reading -check: %s and %s at %d tools must be measured", nameHit, nameStatic, checkedTools)
	}
	return nil
}

// wants reports whether something is to be measured.
func (o *options) wants(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }

// names returns the names of all that can be measured.
func names() []string {
	var all []string
	for _, c := range append(listContenders(), callContenders()...) {
		all = append(all, c.name)
	}
	return append(all, nameFirstEvent, nameChanges, nameMemory)
}
