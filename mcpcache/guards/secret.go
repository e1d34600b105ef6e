package guards

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// account is the part of every guard that tells whose credential it holds. It
// also answers fmt, so that a guard that ends up in a log or a panic does not
// spell out its fields.
type account struct {
	id string
}

// Identity implements [Guard]. It is empty before Provision.
func (a account) Identity() string { return a.id }

// String names the guard without its secrets.
func (a account) String() string { return "guard " + a.id }

// GoString names the guard without its secrets.
func (a account) GoString() string { return a.String() }

// fingerprintRounds slows the guessing of a secret from its fingerprint. It
// costs a few milliseconds once for each provisioned literal secret.
const fingerprintRounds = 10_000

// newAccount derives the identity of a guard from its settings, which must
// hold no secret and marshal to JSON, and from its literal secrets: with
// another secret it may be another account.
//
// An identity must be the same in every process, so that it cannot be salted
// with anything random, and it may be written to shared stores. A fingerprint
// can therefore be tried against guesses. Tokens and client secrets that a
// server has issued have far more than 100 random bits and cannot be guessed.
// For secrets that people made up, the salt (a label and the settings) makes
// tables useless, the rounds make each guess cost what ten thousand hashes
// cost, and what is published is a hash over everything, cut to 128 bits.
func newAccount(guard string, settings any, secrets ...string) (account, error) {
	encoded, err := json.Marshal(settings)
	if err != nil {
		return account{}, fmt.Errorf("encoding settings: %w", err)
	}
	salt := append([]byte("mcp_cache guard identity 1\x00"+guard+"\x00"), encoded...)
	sum := sha256.New()
	sum.Write(salt)
	for _, secret := range secrets {
		key, err := pbkdf2.Key(sha256.New, secret, salt, fingerprintRounds, sha256.Size)
		if err != nil {
			return account{}, fmt.Errorf("deriving identity: %w", err)
		}
		sum.Write(key)
	}
	return account{id: guard + "-" + hex.EncodeToString(sum.Sum(nil)[:16])}, nil
}

// onePlaceholder matches values that are nothing but a placeholder, which may
// be named in an error; any other value may hold a secret.
var onePlaceholder = regexp.MustCompile(`^\{(env|file|system|http|vars)\.[A-Za-z0-9_./:\\ -]+\}$`)

// resolve replaces the placeholders of an option's value with what they stand
// for now. An unknown or empty placeholder, or an empty value, is an error that
// names the option and not the value.
func resolve(option, value string) (string, error) {
	resolved, err := caddy.NewReplacer().ReplaceOrErr(value, true, true)
	if err != nil {
		if onePlaceholder.MatchString(value) {
			return "", fmt.Errorf("%s: placeholder %s is empty or unknown", option, value)
		}
		return "", fmt.Errorf("%s: a placeholder in it is empty or unknown", option)
	}
	if strings.TrimSpace(resolved) == "" {
		return "", fmt.Errorf("%s: must not be empty", option)
	}
	return resolved, nil
}

var (
	errTokenEmpty  = errors.New("token is empty")
	errTokenBytes  = errors.New("token holds characters that a header cannot carry (line breaks, control or non-ASCII characters)")
	errTokenPrefix = errors.New("token already starts with the prefix")
	errTokenLength = fmt.Errorf("token is longer than %d bytes", maxSecretFile)
)

// cleanToken trims white space off a token and checks that a header can carry
// it: visible ASCII and inner spaces. RFC 6750 section 2.1 allows less, but
// other schemes than Bearer allow more.
func cleanToken(raw string) (string, error) {
	token := strings.TrimSpace(raw)
	if token == "" {
		return "", errTokenEmpty
	}
	if len(token) > maxSecretFile {
		return "", errTokenLength
	}
	for i := range len(token) {
		if token[i] < ' ' || token[i] > '~' {
			return "", errTokenBytes
		}
	}
	return token, nil
}

// resolver resolves the options of a guard and keeps the first error. Options
// that are not set stay so.
type resolver struct {
	err error
}

func (r *resolver) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *resolver) text(option string, value *string) {
	if *value == "" {
		return
	}
	resolved, err := resolve(option, *value)
	r.keep(err)
	*value = resolved
}

func (r *resolver) path(option string, value *string) {
	if *value == "" {
		return
	}
	resolved, err := resolvePath(option, *value)
	r.keep(err)
	*value = resolved
}

func (r *resolver) list(option string, values []string) []string {
	resolved := make([]string, 0, len(values))
	for _, value := range values {
		text, err := resolve(option, value)
		r.keep(err)
		resolved = append(resolved, text)
	}
	return resolved
}

func (r *resolver) params(option string, values map[string]string) map[string]string {
	resolved := make(map[string]string, len(values))
	for name, value := range values {
		text, err := resolve(option+" "+name, value)
		r.keep(err)
		resolved[name] = text
	}
	return resolved
}
