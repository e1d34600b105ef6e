package credential

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Account is the part of every guard that tells whose credential it holds. It
// also answers fmt, so that a guard that ends up in a log or a panic does not
// spell out its fields.
type Account struct {
	id string
}

// Identity implements [guards.Guard]. It is empty before Provision.
func (a Account) Identity() string { return a.id }

// String names the guard without its secrets.
func (a Account) String() string { return "guard " + a.id }

// GoString names the guard without its secrets.
func (a Account) GoString() string { return a.String() }

// fingerprintRounds slows the guessing of a secret from its fingerprint. It
// costs a few milliseconds once for each provisioned literal secret.
const fingerprintRounds = 10_000

// NewAccount derives the identity of a guard from its settings, which must
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
func NewAccount(guard string, settings any, secrets ...string) (Account, error) {
	encoded, err := json.Marshal(settings)
	if err != nil {
		return Account{}, fmt.Errorf("encoding settings: %w", err)
	}
	salt := append([]byte("mcp_cache guard identity 1\x00"+guard+"\x00"), encoded...)
	sum := sha256.New()
	sum.Write(salt)
	for _, secret := range secrets {
		key, err := pbkdf2.Key(sha256.New, secret, salt, fingerprintRounds, sha256.Size)
		if err != nil {
			return Account{}, fmt.Errorf("deriving identity: %w", err)
		}
		sum.Write(key)
	}
	return Account{id: guard + "-" + hex.EncodeToString(sum.Sum(nil)[:16])}, nil
}
