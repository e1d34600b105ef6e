package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A server that sets ever more cookies has those forgotten that are too many to be sent.
func TestCookiesAreBounded(t *testing.T) {
	c, u := new(cookies), &url.URL{Scheme: "http", Host: "upstream.test", Path: "/mcp"}
	for n := range 1000 {
		elsewhere := ""
		if n%2 == 1 {
			elsewhere = "/elsewhere"
		}
		c.SetCookies(u, []*http.Cookie{{Name: fmt.Sprint("c", n), Value: strings.Repeat("a", 500), Path: elsewhere, Secure: true}})
		if n == 1 && len(c.Cookies(u)) != 2 {
			t.Fatalf("of two, %v are sent", c.Cookies(u))
		}
		size := 0
		for _, cookie := range c.Cookies(u) {
			size += len(cookie.Value)
		}
		if size > maxCookies {
			t.Fatalf("after %d cookies, %d bytes are sent", n+1, size)
		}
	}
	c.SetCookies(u, []*http.Cookie{{Name: "last", Value: "1"}})
	kept := c.Cookies(u)
	if len(kept) == 0 || kept[len(kept)-1].Name != "last" {
		t.Errorf("kept are %v", kept)
	}
}
