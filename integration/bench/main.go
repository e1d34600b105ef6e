package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

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
			return role(args[1], args[2:])
		}
	}
	o, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	// The load has one core, and what is measured another.
	runtime.GOMAXPROCS(1)
	load, server := cores()
	if err := pin(os.Getpid(), load); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.requests > 0 {
		return countRequests(ctx, o, server, os.Stdout)
	}
	r, err := measure(ctx, o, server)
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
