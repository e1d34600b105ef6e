package outbound

import (
	"net/netip"
	"net/url"
	"testing"
)

func TestReach(t *testing.T) {
	all := []Reach{reachAnywhere, reachLoopback, reachPublic, reachOwn, reachOwnLoopback}
	public := [5]bool{true, false, true, true, false}
	private := [5]bool{true, false, false, true, false}
	loopback := [5]bool{true, true, false, false, true}
	other := [5]bool{true, false, false, false, false}
	for address, want := range map[string][5]bool{
		"93.184.215.14":            public,
		"2606:4700::1":             public,
		"64:ff9b::93.184.215.14":   public,
		"2002:5db8:d70e::1":        public,
		"10.1.2.3":                 private,
		"172.16.0.1":               private,
		"192.168.1.1":              private,
		"100.64.0.1":               private,
		"198.18.0.1":               private,
		"fd00::1":                  private,
		"fec0::1":                  private,
		"feff::1":                  private,
		"64:ff9b:1::1":             private,
		"64:ff9b:1:7f00:0:100::":   private,
		"::ffff:10.1.2.3":          private,
		"64:ff9b::10.1.2.3":        private,
		"2002:a00:1::1":            private,
		"127.0.0.1":                loopback,
		"127.8.9.10":               loopback,
		"::1":                      loopback,
		"::1%lo":                   loopback,
		"::ffff:127.0.0.1":         loopback,
		"64:ff9b::127.0.0.1":       loopback,
		"2002:7f00:1::1":           loopback,
		"0.0.0.0":                  loopback,
		"::":                       loopback,
		"0.0.0.1":                  other,
		"0.255.255.255":            other,
		"240.0.0.1":                other,
		"::127.0.0.1":              other,
		"::10.0.0.1":               other,
		"::ffff:0:127.0.0.1":       other,
		"2001::1":                  other,
		"2001:0:4136:e378::1":      other,
		"2001:1ff:ffff::1":         other,
		"1000::1":                  other,
		"4000::1":                  other,
		"169.254.169.254":          other,
		"fe80::1":                  other,
		"64:ff9b::169.254.169.254": other,
		"224.0.0.1":                other,
		"255.255.255.255":          other,
		"2001:200::1":              public,
	} {
		for i, r := range all {
			if got := r.permits(netip.MustParseAddr(address)) == nil; got != want[i] {
				t.Errorf("reach %d permits %s: %v", r, address, got)
			}
		}
	}
	client := &Client{Listens: func(netip.AddrPort) bool { return false }}
	if client.control(reachPublic)(t.Context(), "unix", "/run/socket", nil) == nil {
		t.Error("a limited request may connect to a socket file")
	}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		own, named string
		want       Reach // reachAnywhere: refused
	}{
		{"http://127.0.0.1:3001/mcp", "http://127.0.0.1:3001/token", reachOwnLoopback},
		{"http://localhost:3001/mcp", "http://LOCALHOST:3001/token", reachOwnLoopback},
		{"http://mcp.localhost/mcp", "http://mcp.localhost:80/token", reachOwnLoopback},
		{"http://[::1]/mcp", "http://[::1]/token", reachOwnLoopback},
		{"https://127.0.0.1:3001/mcp", "https://127.0.0.1:3001/token", reachOwnLoopback},
		{"https://10.0.0.5/mcp", "https://10.0.0.5/token", reachOwn},
		{"https://mcp.example.com/mcp", "https://mcp.example.com/token", reachOwn},
		{"http://127.0.0.1:3001/mcp", "https://as.example.com/token", reachPublic},
		{"", "https://as.example.com/token", reachPublic},
		// Checked when it is dialled:
		{"http://127.0.0.1:3001/mcp", "https://127.0.0.1:3001/token", reachPublic},
		{"http://127.0.0.1:3001/mcp", "https://localhost/token", reachPublic},
		{"https://10.0.0.5/mcp", "https://10.0.0.6/token", reachPublic},

		{"http://127.0.0.1:3001/mcp", "http://127.0.0.1:2019/stop", reachAnywhere},
		{"http://127.0.0.1:3001/mcp", "http://localhost:3001/token", reachAnywhere},
		{"http://127.0.0.1:3001/mcp", "http://127.0.0.1/token", reachAnywhere},
		{"http://127.0.0.1:3001/mcp", "http://127.0.0.2:3001/token", reachAnywhere},
		{"http://localhost:3001/mcp", "http://localhost.:3001/token", reachAnywhere},
		{"http://10.0.0.5/mcp", "http://10.0.0.5/token", reachAnywhere}, // not https
		{"https://mcp.example.com/mcp", "http://mcp.example.com/token", reachAnywhere},
		{"", "http://localhost/token", reachAnywhere},
	} {
		limits := &Bounds{Verified: true}
		if test.own != "" {
			limits.Own, _ = url.Parse(test.own)
		}
		if _, got, err := limits.Parse(t.Context(), test.named); got != test.want || (err != nil) != (test.want == reachAnywhere) {
			t.Errorf("%s, named by %s: %d, %v", test.named, test.own, got, err)
		}
	}
	for raw, want := range map[string]Reach{"https://10.0.0.1/": reachAnywhere, "http://127.0.0.1:1/": reachLoopback} {
		if _, got, err := Operators.Parse(t.Context(), raw); got != want || err != nil {
			t.Errorf("%s of the operator: %d, %v", raw, got, err)
		}
	}
	unproven := &Bounds{Own: &url.URL{Scheme: "https", Host: "mcp.example.com"}}
	if _, got, err := unproven.Parse(t.Context(), "https://mcp.example.com/token"); got != reachPublic || err != nil {
		t.Errorf("a name that need not be proved reaches %d, %v", got, err)
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
		if _, err := parseEndpoint(t.Context(), raw); (err == nil) != ok {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
