package main

import (
	"io"
	"slices"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 5 || o.duration != 4*time.Second || !slices.Equal(o.tools, []int{5, 50, 500}) || !o.wants(nameMemory) {
		t.Errorf("defaults are %+v", o)
	}
	o, err = parseOptions([]string{"-rounds", "7", "-duration", "2s", "-tools", "3, 4", "-only", "hit,static", "-revision", modern}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 7 || o.duration != 2*time.Second || !slices.Equal(o.tools, []int{3, 4}) || o.revision != modern ||
		!o.wants(nameHit) || o.wants(nameRespond) {
		t.Errorf("got %+v", o)
	}
}

func TestShortOptions(t *testing.T) {
	o, err := parseOptions([]string{"-short", "-check"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.duration >= time.Second || !slices.Equal(o.tools, []int{50}) || !o.wants(nameStatic) || o.wants(nameTypeScript) {
		t.Errorf("got %+v", o)
	}
	// What is given wins.
	o, err = parseOptions([]string{"-short", "-duration", "3s", "-tools", "5", "-only", "proxy"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.duration != 3*time.Second || !slices.Equal(o.tools, []int{5}) || !slices.Equal(o.only, []string{nameProxy}) {
		t.Errorf("got %+v", o)
	}
}

func TestBadOptions(t *testing.T) {
	for _, args := range [][]string{
		{"more"}, {"-unknown"}, {"-rounds", "0"}, {"-duration", "1ms"}, {"-duration", "1h"}, {"-tools", "0"}, {"-tools", "x"},
		{"-only", "nobody"}, {"-revision", "2024-11-05"}, {"-check", "-tools", "5"}, {"-check", "-only", nameHit},
	} {
		if o, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%v gives %+v", args, o)
		}
	}
}
