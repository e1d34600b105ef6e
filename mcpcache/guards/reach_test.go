package guards

import (
	"net/netip"
	"net/url"
	"testing"
)

func TestReach(t *testing.T) {
	all := []reach{reachAnywhere, reachPublic, reachPrivate, reachLoopback, reachOnlyLoopback}
	for address, want := range map[string][5]bool{
		"93.184.215.14":            {true, true, true, true, false},
		"2606:4700::1":             {true, true, true, true, false},
		"64:ff9b::93.184.215.14":   {true, true, true, true, false},
		"10.1.2.3":                 {true, false, true, true, false},
		"172.16.0.1":               {true, false, true, true, false},
		"192.168.1.1":              {true, false, true, true, false},
		"100.64.0.1":               {true, false, true, true, false},
		"198.18.0.1":               {true, false, true, true, false},
		"fd00::1":                  {true, false, true, true, false},
		"::ffff:10.1.2.3":          {true, false, true, true, false},
		"64:ff9b::10.1.2.3":        {true, false, true, true, false},
		"127.0.0.1":                {true, false, false, true, true},
		"127.8.9.10":               {true, false, false, true, true},
		"::1":                      {true, false, false, true, true},
		"::ffff:127.0.0.1":         {true, false, false, true, true},
		"0.0.0.0":                  {true, false, false, true, true},
		"::":                       {true, false, false, true, true},
		"169.254.169.254":          {true, false, false, false, false},
		"fe80::1":                  {true, false, false, false, false},
		"64:ff9b::169.254.169.254": {true, false, false, false, false},
		"224.0.0.1":                {true, false, false, false, false},
		"255.255.255.255":          {true, false, false, false, false},
	} {
		for i, r := range all {
			if got := r.permits(netip.MustParseAddr(address)) == nil; got != want[i] {
				t.Errorf("reach %d permits %s: %v", r, address, got)
			}
		}
	}
	if reachPublic.control(t.Context(), "unix", "/run/socket", nil) == nil {
		t.Error("a limited request may connect to a socket file")
	}
}

func TestReachOfAnUpstream(t *testing.T) {
	for endpoint, want := range map[string]reach{
		"http://127.0.0.1:3001/mcp":        reachLoopback,
		"http://localhost:3001/mcp":        reachLoopback,
		"http://mcp.localhost/mcp":         reachLoopback,
		"http://[::1]/mcp":                 reachLoopback,
		"http://10.0.0.5/mcp":              reachPrivate,
		"https://203.0.113.7/mcp":          reachPublic,
		"https://169.254.1.1/mcp":          reachPublic,
		"https://does-not-exist.invalid/x": reachPublic,
	} {
		u, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if got := reachOf(t.Context(), u); got != want {
			t.Errorf("reach of %s is %d, want %d", endpoint, got, want)
		}
	}
}

func TestParseEndpoint(t *testing.T) {
	for raw, ok := range map[string]bool{
		"https://as.example.com/token?x=y": true,
		"http://127.0.0.1:8080/token":      true,
		"http://localhost/token":           true,
		"http://localhost./token":          true,
		"http://[::1]:1/token":             true,
		"http://as.example.com/token":      false,
		"http://localhost.example.com/":    false,
		"http://10.0.0.1/token":            false,
		"https://user@as.example.com/":     false,
		"https://as.example.com/#x":        false,
		"https:///token":                   false,
		"ftp://as.example.com/":            false,
		"//as.example.com/":                false,
		"https://as.example.com/%zz":       false,
		"":                                 false,
	} {
		if _, err := parseEndpoint(raw); (err == nil) != ok {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
