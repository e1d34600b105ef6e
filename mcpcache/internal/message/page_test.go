package message

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestParsePage(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   revision.Kind
		result string
		want   Page // without what is not exported
		names  []string
	}{
		"legacy": {
			revision.Tools, `{"tools":[{"name":"a"},{"x":1,"name":"\u0062"}],"nextCursor":"n"}`,
			Page{Count: 2, NextCursor: []byte(`"n"`), Complete: true}, []string{"a", "b"},
		},
		"modern": {
			revision.Resources, `{"resultType":"complete","ttlMs":1500,"cacheScope":"public","resources":[{"uri":"file:///a","name":"n"},{"uri":"file:///b","name":"n"}]}`,
			Page{Count: 2, TTL: 1500 * time.Millisecond, HasTTL: true, Scope: ScopePublic, Complete: true}, []string{"file:///a", "file:///b"},
		},
		"empty": {
			revision.Prompts, `{"prompts":[],"ttlMs":0,"cacheScope":"private","nextCursor":""}`,
			Page{NextCursor: []byte(`""`), HasTTL: true, Scope: ScopePrivate, Complete: true}, nil,
		},
		"templates": {
			revision.ResourceTemplates, `{"resourceTemplates":[{"uriTemplate":"file:///{p}"}]}`,
			Page{Count: 1, Complete: true}, []string{"file:///{p}"},
		},
		"unknown scope": {
			revision.Prompts, `{"prompts":[],"cacheScope":"shared"}`,
			Page{Scope: ScopePrivate, Complete: true}, nil,
		},
		"scope is no string": {
			revision.Prompts, `{"prompts":[],"cacheScope":1}`,
			Page{Scope: ScopePrivate, Complete: true}, nil,
		},
		"input required": {
			revision.Reads, `{"resultType":"input_required","inputRequests":{}}`,
			Page{}, nil,
		},
		"result type is no string": {
			revision.Reads, `{"resultType":true}`,
			Page{}, nil,
		},
		"null is absent": {
			revision.Tools, `{"tools":[],"resultType":null,"ttlMs":null,"cacheScope":null,"nextCursor":null,"x":null}`,
			Page{Complete: true}, nil,
		},
		"discover": {
			revision.Discover, `{"resultType":"complete","nextCursor":5,"tools":1,"ttlMs":-1}`,
			Page{HasTTL: true, Complete: true}, nil,
		},
		"nothing": {revision.Discover, `{}`, Page{Complete: true}, nil},
		"item repeats what does not matter": {
			revision.Tools, `{"tools":[{"name":"a","x":1,"x":2}]}`,
			Page{Count: 1, Complete: true}, []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ParsePage([]byte(tt.result), tt.kind)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.itemNames(); !slices.Equal(got, tt.names) {
				t.Errorf("got names %q, want %q", got, tt.names)
			}
			got := *p
			got.result, got.members, got.items = nil, nil, nil
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParsePageRefuses(t *testing.T) {
	for result, want := range map[string]error{
		``:                                    ErrInvalid,
		`[]`:                                  ErrInvalid,
		`{}`:                                  ErrInvalid,
		`{"tools":[]`:                         ErrInvalid,
		`{"tools":[]}}`:                       ErrInvalid,
		`{"tools":{}}`:                        ErrInvalid,
		`{"tools":null}`:                      ErrInvalid,
		`{"tools":["a"]}`:                     ErrInvalid,
		`{"tools":[{"name":"a"},null]}`:       ErrInvalid,
		`{"tools":[{}]}`:                      ErrInvalid,
		`{"tools":[{"name":""}]}`:             ErrInvalid,
		`{"tools":[{"name":1}]}`:              ErrInvalid,
		`{"tools":[{"name":"a","name":"b"}]}`: ErrAmbiguous,
		`{"tools":[],"tools":[]}`:             ErrAmbiguous,
		`{"tools":[],"Tools":[]}`:             ErrAmbiguous,
		`{"tools":[],"x":1,"\u0078":1}`:       ErrAmbiguous,
		`{"tools":[],"cacheScope":"public","cachescope":"private"}`: ErrAmbiguous,
		`{"tools":[],"ttlMs":"5"}`:                                  ErrInvalid,
	} {
		p, err := ParsePage([]byte(result), revision.Tools)
		if !errors.Is(err, want) || p != nil {
			t.Errorf("%s: got %v, error %v, want %v", result, p, err, want)
		}
	}
}

// TestNullIsLeftOut has members of null: those that are known are not passed on.
func TestNullIsLeftOut(t *testing.T) {
	p, err := ParsePage([]byte(`{"nextCursor":null,"x":null,"tools":[{"name":"a"}],"cacheScope":null,"ttlMs":null}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(Single(revision.Tools, p).Bytes), `"x":null,"tools":[{"name":"a"}]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParsePageTTL(t *testing.T) {
	longest := time.Duration(math.MaxInt64).Truncate(time.Millisecond)
	for raw, want := range map[string]time.Duration{
		"0": 0, "-0": 0, "-1": 0, "-1e999": 0, "0.9": 0, "1e-999": 0,
		"1":                          time.Millisecond,
		"1.5":                        time.Millisecond,
		"1e3":                        time.Second,
		"86400000":                   24 * time.Hour,
		"9223372036853":              longest - time.Millisecond, // one less than a Duration holds
		"9223372036854":              longest,
		"9223372036855":              longest,
		"1e400":                      longest,
		"99999999999999999999999999": longest,
	} {
		p, err := ParsePage([]byte(`{"ttlMs":`+raw+`}`), revision.Discover)
		if err != nil {
			t.Fatal(err)
		}
		if p.TTL != want || !p.HasTTL {
			t.Errorf("ttlMs %s: got %v, want %v", raw, p.TTL, want)
		}
	}
}

// itemNames returns the unescaped names of the items, in order.
func (p *Page) itemNames() []string {
	names := make([]string, 0, p.items.len())
	for i := range p.items.len() {
		names = append(names, string(p.items.name(uint32(i))))
	}
	return names
}
