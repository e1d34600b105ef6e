package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

var (
	fetched = time.Date(2026, 7, 28, 12, 30, 15, 123456789, time.UTC)
	later   = fetched.Add(2 * time.Hour)
)

// entry makes a snapshot of those pages, as the feed does.
func entry(tb testing.TB, k revision.Kind, pages ...string) *cache.Entry {
	tb.Helper()
	parsed := make([]*message.Page, len(pages))
	for i, page := range pages {
		var err error
		if parsed[i], err = message.ParsePage([]byte(page), k); err != nil {
			tb.Fatal(err)
		}
	}
	body, err := message.Join(k, parsed)
	if err != nil {
		tb.Fatal(err)
	}
	return &cache.Entry{
		Kind: k, Revision: revision.V20260728, Partition: cache.Public, Body: body,
		Fetched: fetched, Lifetime: time.Hour,
	}
}

// tools is a list in an odd hand: numbers that a float cannot hold, escapes,
// white space, members that nobody knows.
const tools = ` { "x-vendor" : 1.0000000000000000001e+00 , "resultType":"complete",
	"tools": [ {"name":"caf\u00e9" , "n": 12345678901234567890 , "z":[ ]},
		{ "name":"\u0000\ud83d\ude00" , "inputSchema":{"$schema":"x","type":"object"}, "_meta":{"a":"\/"}}	],
	"cacheScope" : "public","ttlMs": 60000 , "_meta":{ "io.modelcontextprotocol/serverInfo": {"name":"s"} } } `

var admittedUntil = time.Date(2026, 7, 28, 12, 5, 0, 0, time.UTC)

func encoded(tb testing.TB, e *cache.Entry) []byte {
	tb.Helper()
	data, err := Encode(e, false, State{Admitted: admittedUntil}, Terms{})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	for name, e := range map[string]*cache.Entry{
		"odd hand": entry(t, revision.Tools, tools),
		"pages": entry(t, revision.Prompts,
			`{"prompts":[{"name":"a"} , {"name":"b"}],"nextCursor":"","ttlMs":5}`,
			`{"prompts":[{"name":"c"}],"nextCursor":"2","cacheScope":"public"}`,
			`{"x":1,"prompts":[ ]}`),
		"no item":   entry(t, revision.Resources, `{"resources":[]}`),
		"templates": entry(t, revision.ResourceTemplates, `{"resourceTemplates":[{"uriTemplate":"a/{b}"}]}`),
		"discover":  entry(t, revision.Discover, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0}`),
		"nothing":   entry(t, revision.Discover, `{}`),
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := Decode(encoded(t, e), e.Revision, e.Kind, later, Terms{})
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, got, e)
		})
	}
}

// wantSame fails unless got is what a restart should know of e.
func wantSame(t *testing.T, got, e *cache.Entry) {
	t.Helper()
	if !bytes.Equal(got.Body.Bytes, e.Body.Bytes) || got.Body.Digest != e.Body.Digest {
		t.Errorf("bytes are\n%s\nwant\n%s", got.Body.Bytes, e.Body.Bytes)
	}
	if got.Body.Items != e.Body.Items || len(got.Body.Names()) != len(e.Body.Names()) ||
		len(e.Body.Names()) > 0 && !reflect.DeepEqual(got.Body.Names(), e.Body.Names()) {
		t.Errorf("%d items %q, want %d %q", got.Body.Items, got.Body.Names(), e.Body.Items, e.Body.Names())
	}
	if got.Body.HasTTL != e.Body.HasTTL || got.Body.NextCursor != nil {
		t.Errorf("has a TTL %v, want %v; cursor %q", got.Body.HasTTL, e.Body.HasTTL, got.Body.NextCursor)
	}
	if got.Kind != e.Kind || got.Revision != e.Revision || got.Partition != e.Partition {
		t.Errorf("got %+v, want %+v", got, e)
	}
	if !got.Fetched.Equal(e.Fetched) {
		t.Errorf("fetched at %v, want %v", got.Fetched, e.Fetched)
	}
	if got.Lifetime != e.Lifetime {
		t.Errorf("it is fresh for %v, want %v", got.Lifetime, e.Lifetime)
	}
	if !got.Asked.IsZero() {
		t.Errorf("it was asked for at %v, which nobody knows", got.Asked)
	}
}

func TestWhatIsRemembered(t *testing.T) {
	for name, change := range map[string]func(*cache.Entry){
		"anonymous":      func(e *cache.Entry) { e.Partition = cache.Anonymous },
		"no TTL":         func(e *cache.Entry) { e.Body.HasTTL = false },
		"other revision": func(e *cache.Entry) { e.Revision = revision.V20250326 },
		"local time":     func(e *cache.Entry) { e.Fetched = e.Fetched.In(time.FixedZone("", 3*3600+1800)) },
	} {
		t.Run(name, func(t *testing.T) {
			e := entry(t, revision.Tools, tools)
			change(e)
			got, _, err := Decode(encoded(t, e), e.Revision, e.Kind, later, Terms{})
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, got, e)
		})
	}
}

// That a change was announced is written down. What was written before that was
// known to matter tells of none.
func TestAnnouncementIsWrittenDown(t *testing.T) {
	e := entry(t, revision.Tools, tools)
	for _, announced := range []bool{false, true} {
		data, err := Encode(e, announced, State{Admitted: admittedUntil}, Terms{})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Decode(data, e.Revision, e.Kind, later, Terms{})
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, e)
		if got.Mark.BeforeStart() != announced || bytes.Contains(data, []byte("announced")) != announced {
			t.Errorf("announced %v became %v in %.300s", announced, got.Mark.BeforeStart(), data)
		}
	}
}

func stateOf(t *testing.T, data []byte) State {
	t.Helper()
	_, state, err := Decode(data, revision.V20260728, revision.Tools, later, Terms{})
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return state
}

// Whether callers without credentials are admitted is written down as well.
func TestAdmissionIsWrittenDown(t *testing.T) {
	e := entry(t, revision.Tools, `{"tools":[]}`)
	if got := stateOf(t, encoded(t, e)).Admitted; !got.Equal(admittedUntil) {
		t.Errorf("admitted until %s, want %s", got, admittedUntil)
	}
	data, err := Encode(e, false, State{}, Terms{})
	if err != nil || !stateOf(t, data).Admitted.IsZero() || strings.Contains(string(data), "admitted") {
		t.Errorf("nobody is admitted, and yet it says so: %s, %v", data, err)
	}
	clients := []Client{{Capabilities: []byte(`{"sampling":{}}`), Name: "c", Language: "de"}, {Capabilities: []byte(`{}`)}}
	if data, err = Encode(e, false, State{Clients: clients}, Terms{}); err != nil || !reflect.DeepEqual(stateOf(t, data).Clients, clients) {
		t.Errorf("clients are %+v, %v", stateOf(t, data).Clients, err)
	}
	many := slices.Repeat([]Client{{Capabilities: []byte(`{}`), Name: strings.Repeat("\x00", 4000)}}, 100)
	if data, err = Encode(e, false, State{Clients: many}, Terms{}); err != nil || len(stateOf(t, data).Clients) != 4 || len(data) > Overhead+len(e.Body.Bytes) {
		t.Errorf("of very many clients %d are stored in %d bytes, %v", len(stateOf(t, data).Clients), len(data), err)
	}
}

// A list that never was fresh must not become one that expired: those are
// served without asking while the upstream struggles.
func TestNeverFreshStaysSo(t *testing.T) {
	for lifetime, want := range map[time.Duration]time.Duration{0: 0, -1: 0, 1: 1, time.Hour: time.Hour} {
		e := entry(t, revision.Tools, tools)
		e.Lifetime = lifetime
		got, _, err := Decode(encoded(t, e), e.Revision, e.Kind, later, Terms{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Lifetime != want {
			t.Errorf("lifetime %v is restored as %v, want %v", lifetime, got.Lifetime, want)
		}
	}
}

func TestPrivateIsNeverWritten(t *testing.T) {
	for name, p := range map[string]cache.Partition{
		"context": cache.ContextOf([16]byte{1}, cache.Asked{}), "zero context": cache.ContextOf([16]byte{}, cache.Asked{}), "guard's": cache.FeedOnly,
	} {
		e := entry(t, revision.Tools, tools)
		e.Partition = p
		if data, err := Encode(e, false, State{Admitted: admittedUntil}, Terms{}); !errors.Is(err, errPrivate) || data != nil {
			t.Errorf("%s: wrote %q, %v", name, data, err)
		}
		if Shareable(e) {
			t.Errorf("%s is said to be shareable", name)
		}
	}
}

// wantRefused fails unless data is refused with one of those errors.
func wantRefused(t *testing.T, what string, data []byte, want ...error) {
	t.Helper()
	e, _, err := Decode(data, revision.V20260728, revision.Tools, later, Terms{})
	if e != nil {
		t.Fatalf("%s: read as %s", what, e.Body.Bytes)
	}
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	t.Fatalf("%s: got error %v, want one of %v", what, err, want)
}

func TestEveryDamageIsNoticed(t *testing.T) {
	whole := encoded(t, entry(t, revision.Tools, tools))
	for i := range whole {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			wantRefused(t, fmt.Sprintf("bit %d of byte %d flipped", bit, i), damaged, errCorrupt, errForeign)
		}
		wantRefused(t, fmt.Sprintf("cut at byte %d", i), whole[:i], errCorrupt, errForeign)
		wantRefused(t, fmt.Sprintf("zeros from byte %d", i), append(bytes.Clone(whole[:i]), make([]byte, len(whole)-i)...), errCorrupt, errForeign)
		wantRefused(t, fmt.Sprintf("without byte %d", i), append(bytes.Clone(whole[:i]), whole[i+1:]...), errCorrupt, errForeign)
		wantRefused(t, fmt.Sprintf("without the first %d bytes", i+1), whole[i+1:], errCorrupt, errForeign)
	}
	wantRefused(t, "something appended", append(bytes.Clone(whole), '\n'), errCorrupt)
	wantRefused(t, "twice", append(bytes.Clone(whole), whole...), errCorrupt)
}

// Two writes that got mixed up make no list of either.
func TestMixedWritesAreNoticed(t *testing.T) {
	a := encoded(t, entry(t, revision.Tools, `{"tools":[{"name":"a","n":1}]}`))
	b := encoded(t, entry(t, revision.Tools, `{"tools":[{"name":"b","n":2}]}`))
	if len(a) != len(b) {
		t.Fatal("the two are not of one length")
	}
	for i := range a {
		mixed := append(bytes.Clone(a[:i]), b[i:]...)
		if bytes.Equal(mixed, a) || bytes.Equal(mixed, b) {
			continue
		}
		wantRefused(t, fmt.Sprintf("the other from byte %d", i), mixed, errCorrupt)
	}
}

func TestForeign(t *testing.T) {
	e := entry(t, revision.Tools, tools)
	whole := string(encoded(t, e))
	for name, data := range map[string]string{
		"nothing":          "",
		"something else":   "-----BEGIN CERTIFICATE-----\n",
		"future version":   strings.Replace(whole, "snapshot 1 ", "snapshot 2 ", 1),
		"version 10":       strings.Replace(whole, "snapshot 1 ", "snapshot 10 ", 1),
		"JSON":             `{"mcp_cache_snapshot":1}` + "\n",
		"head is no JSON":  string(Terms{}.seal([]byte("kind: tools"), e.Body.Bytes)),
		"head is an array": string(Terms{}.seal([]byte(`["tools"]`), e.Body.Bytes)),
		"empty head":       string(Terms{}.seal(nil, e.Body.Bytes)),
	} {
		wantRefused(t, name, []byte(data), errForeign)
	}
}

func TestForeignList(t *testing.T) {
	data := encoded(t, entry(t, revision.Tools, tools))
	for _, r := range revision.All() {
		for _, k := range revision.Kinds() {
			e, _, err := Decode(data, r, k, later, Terms{})
			own := r == revision.V20260728 && k == revision.Tools
			if own != (err == nil) || own != (e != nil) || !own && !errors.Is(err, errForeign) {
				t.Errorf("as %s of %s: got %v, %v", k, r, e, err)
			}
		}
	}
}

func TestFromTheFuture(t *testing.T) {
	data := encoded(t, entry(t, revision.Tools, tools))
	for now, want := range map[time.Time]error{
		fetched.Add(-maxSkew - 1): errForeign, fetched.Add(-time.Hour): errForeign, fetched.Add(-maxSkew): nil, fetched.Add(-1): nil, fetched: nil, fetched.Add(1): nil,
	} {
		e, _, err := Decode(data, revision.V20260728, revision.Tools, now, Terms{})
		if !errors.Is(err, want) || err == nil && e.Age(now) != max(now.Sub(fetched), 0) {
			t.Errorf("%v after it was fetched: got %v, %v, want %v", now.Sub(fetched), e, err, want)
		}
	}
}

// What is sealed but was not written by Encode is no list.
func TestSealedNonsense(t *testing.T) {
	const head = `{"kind":"tools","revision":"2026-07-28","fetched":"2026-07-28T12:30:15Z"}`
	for name, list := range map[string]string{
		"nothing":           ``,
		"no brace":          `"tools":[]`,
		"one brace":         `"tools":[]}`,
		"no list":           `"prompts":[]}}`,
		"no array":          `"tools":{}}}`,
		"two lists":         `"tools":[],"tools":[]}}`,
		"a ttlMs":           `"tools":[],"ttlMs":5}}`,
		"a cursor":          `"tools":[],"nextCursor":"2"}}`,
		"white space":       `"tools":[], "x":1}}`,
		"incomplete":        `"resultType":"input_required","tools":[]}}`,
		"a second message":  `"tools":[]}},{"tools":[]}}`,
		"something besides": `"tools":[]},"id":1}`,
	} {
		wantRefused(t, name, Terms{}.seal([]byte(head), []byte(list)), errCorrupt)
	}
	if _, _, err := Decode(Terms{}.seal([]byte(head), []byte(`"tools":[]}}`)), revision.V20260728, revision.Tools, later, Terms{}); err != nil {
		t.Errorf("a list is refused: %v", err)
	}
}

// Times are written by the clock of others. When a list was asked for is the earliest that that
// clock may have said then, and nothing if it is not known.
func TestClockOfOthers(t *testing.T) {
	terms := Terms{Ahead: time.Hour, Within: time.Second}
	for name, asked := range map[string]time.Time{"known": fetched.Add(-time.Minute), "not known": {}} {
		e := entry(t, revision.Tools, tools)
		want := asked
		if !asked.IsZero() {
			want = asked.Add(-time.Second)
		}
		data, err := Encode(e, false, State{AsOf: terms.AsOf(asked)}, terms)
		if err != nil {
			t.Fatal(err)
		}
		got, state, err := Decode(data, e.Revision, e.Kind, later, terms)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Fetched.Equal(fetched) || !got.Asked.Equal(want) || state.AsOf.IsZero() != asked.IsZero() {
			t.Errorf("%s: fetched %v, asked for at %v, want %v; as of %v", name, got.Fetched, got.Asked, want, state.AsOf)
		}
		if !asked.IsZero() && !state.AsOf.Equal(want.Add(time.Hour)) {
			t.Errorf("by the clock of others it is as of %v", state.AsOf)
		}
	}
}
