package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// roles are what this program can be started as by itself.
var roles = map[string]func([]string) error{
	"load":     runLoad,
	"caddy":    runCaddy,
	"upstream": runUpstream,
	"mcp-go":   runMCPGo,
	"go-sdk":   runGoSDK,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		if role := roles[args[0]]; role != nil {
			return role(args[1:])
		}
	}
	o, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := measure(ctx, o)
	if err != nil {
		return err
	}
	if err := r.write(os.Stdout); err != nil {
		return err
	}
	if o.check {
		return r.check()
	}
	return nil
}
