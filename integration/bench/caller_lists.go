package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// callerLists are lists of 50 tools for the callers "Bearer 0", "Bearer 1" and
// so on. Others have the list that is the same for all of a kind.
type callerLists struct {
	kind string
	base []tool
	same []byte
}

// How the lists of callers are alike.
const (
	sameLists      = "same"      // all have the same list
	sharedTools    = "shared"    // lists differ, and are made of 2,000 tools in all
	differentLists = "different" // each tool of each list is another
)

const (
	callerTools = 50
	allTools    = 2000
)

func newCallerLists(kind string) (*callerLists, error) {
	n := callerTools
	switch kind {
	case sharedTools:
		n = allTools
	case sameLists, differentLists:
	default:
		return nil, fmt.Errorf("no lists of the kind %q", kind)
	}
	tools := makeTools(n, 7)
	return &callerLists{kind: kind, base: tools, same: toolList(tools)}, nil
}

// of returns the list of the sender of a credential.
func (l *callerLists) of(credential string) []byte {
	if l.kind == sameLists {
		return l.same
	}
	n, err := strconv.Atoi(strings.TrimPrefix(credential, "Bearer "))
	if err != nil {
		return l.same
	}
	tools := make([]tool, callerTools)
	for i := range tools {
		if l.kind == sharedTools {
			// No two lists begin with the same tool and go on with the same
			// step.
			tools[i] = l.base[(n+i*(1+n/allTools))%allTools]
			continue
		}
		tools[i] = l.base[i]
		tools[i].Description = strconv.Itoa(n) + " " + tools[i].Description
	}
	return toolList(tools)
}

// encodeTools writes a file of tools.
func encodeTools(tools []tool) []byte {
	encoded, err := json.Marshal(tools)
	if err != nil {
		panic(err) // tools always marshal
	}
	return encoded
}
