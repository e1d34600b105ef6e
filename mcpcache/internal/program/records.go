package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// maxRecords is how many answers are recorded; maxRecord how large one may be.
	maxRecords = 64
	maxRecord  = 256 << 10
	// storing is how long a store may take.
	storing = 3 * time.Second
	// stored is how often records are stored that do not change: what has not been for a week is
	// deleted by some stores.
	stored = 24 * time.Hour
)

// Store keeps the records of one program.
type Store interface {
	// Load returns what was saved last. The error is [fs.ErrNotExist] if nothing was.
	Load(ctx context.Context) ([]byte, error)
	Save(ctx context.Context, records []byte) error
}

// records are what a program has said of itself, to clients that opened a session and to
// server/discover: it need not run to say that again.
type records struct {
	program *Program
	store   Store // nil: they are kept in memory alone
	load    sync.Once

	mu      sync.Mutex
	answers map[recordKey]record
	saved   time.Time
	dirty   bool
	saving  bool
	failing bool // saving does
	saves   sync.WaitGroup
}

// recordKey stands for those who are told the same: clients of one name with the same capabilities
// that have asked for the same revision.
type recordKey string

// record is an answer.
type record struct {
	// Result is the answer's as written; nil if it is an error.
	Result json.RawMessage `json:"result,omitempty"`
	// Refusal is the answer to a client that wants a session. It counts if the program has none.
	Refusal json.RawMessage `json:"refusal,omitempty"`
	At      time.Time       `json:"at"`
}

// recorded is what is stored.
type recorded struct {
	Version int                  `json:"version"`
	Era     string               `json:"era,omitempty"`
	Answers map[recordKey]record `json:"answers"`
}

// recordsVersion is that of the format.
const recordsVersion = 1

// keyOf returns the key of what a client is told.
func keyOf(method, version string, capabilities []byte, name string) (recordKey, error) {
	canonical, err := message.Canonical(capabilities)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, part := range [...]string{method, version, string(canonical), name} {
		fmt.Fprintf(hash, "%d:%s,", len(part), part)
	}
	return recordKey(base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:16])), nil
}

// keyOfInitialize returns the key of the answer to an initialize.
func keyOfInitialize(request []byte) (recordKey, error) {
	client, err := message.ParseClient(request)
	if err != nil {
		return "", err
	}
	return keyOf("initialize", message.StringAt(request, "params", "protocolVersion"), client.Capabilities, client.Name)
}

// keyOfDiscover returns the key of the answer to a server/discover.
func keyOfDiscover(request []byte) (recordKey, error) {
	capabilities, _ := message.ValueAt(request, "params", "_meta", message.MetaCapabilities)
	return keyOf(revision.Discover.Method(), message.StringAt(request, "params", "_meta", message.MetaRevision),
		capabilities, message.StringAt(request, "params", "_meta", message.MetaClientInfo, "name"))
}

// of returns what was answered to those of that key, or false. err is that of making the key.
func (r *records) of(key recordKey, err error) (record, bool) {
	if err != nil {
		return record{}, false
	}
	r.mu.Lock()
	known, ok := r.answers[key]
	r.mu.Unlock()
	if known.Refusal != nil && !r.program.modern.era.is(isModern) {
		return record{}, false
	}
	return known, ok
}

// note records an answer. It reports whether the program says something else than before: then it is
// another version of it, and what it has said to others counts no more.
func (r *records) note(key recordKey, err error, now record) (changed bool) {
	if err != nil || len(now.Result)+len(now.Refusal) > maxRecord {
		return false
	}
	now.Result, now.Refusal, now.At = bytes.Clone(now.Result), bytes.Clone(now.Refusal), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.answers[key]
	switch {
	case known && describes(before.Result) != describes(now.Result):
		clear(r.answers)
		changed = true
	case known && bytes.Equal(before.Result, now.Result) && time.Since(r.saved) < stored:
		return false
	case !known && len(r.answers) >= maxRecords:
		r.forgetOldest()
	}
	r.answers[key] = now
	r.saveLater()
	return changed
}

// forget forgets all that the program has said.
func (r *records) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.answers)
	r.saveLater()
}

// forgetOldest makes room. The lock is held.
func (r *records) forgetOldest() {
	var oldest recordKey
	for key, known := range r.answers {
		if oldest == "" || known.At.Before(r.answers[oldest].At) {
			oldest = key
		}
	}
	delete(r.answers, oldest)
}

// description is a digest of what a program says that it is and can do.
type description [sha256.Size]byte

// describes returns that of a result of initialize or server/discover.
func describes(result []byte) description {
	return digestOf(result, "protocolVersion", "supportedVersions", "capabilities", "serverInfo")
}

// offers returns a digest of what a client of a session goes by: another one would be another session.
func offers(result []byte) description { return digestOf(result, "protocolVersion", "capabilities") }

func digestOf(result []byte, members ...string) description {
	hash := sha256.New()
	for _, member := range members {
		value, _ := message.ValueAt(result, member)
		if canonical, err := message.Canonical(value); err == nil {
			value = canonical
		}
		fmt.Fprintf(hash, "%d:%s,", len(value), value)
	}
	return description(hash.Sum(nil))
}

// recall loads what was stored by an earlier process of Caddy, once.
func (r *records) recall() {
	r.load.Do(func() {
		if r.store == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), storing)
		defer cancel()
		var was recorded
		content, err := r.store.Load(ctx)
		if err == nil {
			err = json.Unmarshal(content, &was)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			r.program.log().Warn("what the program has said before is not known", zap.Error(err))
			return
		case was.Version != recordsVersion || len(was.Answers) > maxRecords:
			return
		}
		r.program.modern.era.set(func() { r.program.modern.era.speaks = eraOf(was.Era) })
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, known := range was.Answers {
			if _, newer := r.answers[key]; !newer {
				r.answers[key] = known
			}
		}
		r.saveLater() // what is in use is not deleted
	})
}

// change says that what is to be stored has changed.
func (r *records) change() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saveLater()
}

// saveLater has the records saved in the background. The lock is held.
func (r *records) saveLater() {
	r.dirty = true
	if r.store == nil || r.saving {
		return
	}
	r.saving = true
	r.saves.Go(r.save)
}

// save saves until there is nothing new.
func (r *records) save() {
	for {
		r.mu.Lock()
		if !r.dirty {
			r.saving = false
			r.mu.Unlock()
			return
		}
		r.dirty, r.saved = false, time.Now()
		content, err := json.Marshal(recorded{Version: recordsVersion, Era: r.program.modern.era.name(), Answers: r.answers})
		r.mu.Unlock()
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), storing)
			err = r.store.Save(ctx, content)
			cancel()
		}
		if err != nil && !r.failing {
			r.program.log().Warn("what the program says of itself cannot be stored: after a restart it is started to say it again", zap.Error(err))
		}
		r.failing = err != nil
	}
}
