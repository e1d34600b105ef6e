package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	rounds   int
	duration time.Duration
	tools    []int
	only     []string // names of contenders; all if there are none
	readme   bool
	requests time.Duration // for how long requests are counted; 0: contenders are measured
	check    bool
}

// checkedTools is the length of the list that -check is about, and in front of
// which calls are forwarded.
const checkedTools = 50

// parseOptions reads the command line.
func parseOptions(args []string, output io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(output)
	var tools, only string
	short := flags.Bool("short", false, "few contenders, 50 tools, rounds of 700ms; about a minute")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each contender is measured")
	flags.DurationVar(&o.duration, "duration", 4*time.Second, "how long each contender is measured in a round; 700ms with -short")
	flags.StringVar(&tools, "tools", "5,50,500", "lengths of the lists; 50 with -short and -readme")
	flags.StringVar(&only, "only", "", "measure only these: "+strings.Join(namesOf(func(contender) bool { return true }), ", "))
	flags.BoolVar(&o.readme, "readme", false, "measure and print only the ratios of the project's README, at 50 tools")
	flags.DurationVar(&o.requests, "requests", 0, "measure nothing, and count for that long what reaches servers, such as 10m")
	flags.BoolVar(&o.check, "check", false, "end with status 1 if a hit at 50 tools costs too much, or with -requests, if too much reaches a server")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("reading arguments: %q is not known", flags.Arg(0))
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if *short && !given["duration"] {
		o.duration = 700 * time.Millisecond
	}
	if (*short || o.readme) && !given["tools"] {
		tools = strconv.Itoa(checkedTools)
	}
	switch {
	case given["only"]:
		o.only = strings.Split(only, ",")
	case o.readme:
		o.only = namesOf(func(c contender) bool { return c.readme })
	case *short:
		o.only = namesOf(func(c contender) bool { return c.short })
	}
	for field := range strings.SplitSeq(tools, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || n > 10_000 {
			return nil, fmt.Errorf("reading -tools: %q is not from 1 to 10000", field)
		}
		o.tools = append(o.tools, n)
	}
	return o, o.validate()
}

func (o *options) validate() error {
	known := namesOf(func(contender) bool { return true })
	if o.requests > 0 {
		known = nil
		for _, server := range counted {
			known = append(known, server.role)
		}
	}
	for _, name := range o.only {
		if !slices.Contains(known, name) {
			return fmt.Errorf("reading -only: %q is not known", name)
		}
	}
	if o.rounds < 1 || o.rounds > 1000 {
		return fmt.Errorf("reading -rounds: %d is not from 1 to 1000", o.rounds)
	}
	if o.duration < 50*time.Millisecond || o.duration > time.Minute {
		return fmt.Errorf("reading -duration: %s is not from 50ms to 1m", o.duration)
	}
	if o.requests < 0 || o.requests > 24*time.Hour {
		return fmt.Errorf("reading -requests: %s is not up to 24h", o.requests)
	}
	if o.check && o.requests == 0 && (!slices.Contains(o.tools, checkedTools) || !o.wants(hit) || !o.wants(ready)) {
		return fmt.Errorf("reading -check: %s and %s at %d tools must be measured", hit, ready, checkedTools)
	}
	return nil
}

// wants reports whether a contender is to be measured.
func (o *options) wants(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }
