package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/outbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/tokensource"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
)

const (
	errNoToken = credential.UnusableError("token endpoint issued no token")

	// skewWorthTelling is the difference between the server's clock and ours
	// from which it may be the reason for a refusal.
	skewWorthTelling = 20 * time.Second
)

// tokenAnswer is what a token endpoint says (RFC 6749 sections 5.1 and 5.2).
type tokenAnswer struct {
	AccessToken string          `json:"access_token"`
	TokenType   string          `json:"token_type"`
	ExpiresIn   json.RawMessage `json:"expires_in"`
	Error       string          `json:"error"`
	Description string          `json:"error_description"`
}

// refusal is an error answer of a token endpoint that another try does not
// change. It counts as [guards.ErrUnauthorized] and [tokensource.ErrRefused].
type refusal struct {
	code        string
	description string
	skew        time.Duration // the server's clock is ahead by this
}

func (e *refusal) Error() string {
	text := "token endpoint refused with " + e.code
	if e.description != "" {
		text += " (" + e.description + ")"
	}
	if e.skew.Abs() >= skewWorthTelling {
		text += fmt.Sprintf("; the server's clock differs by %v", e.skew.Round(time.Second))
	}
	return text
}

// Is implements the interface that [errors.Is] looks for.
func (e *refusal) Is(target error) bool {
	return target == guards.ErrUnauthorized || target == tokensource.ErrRefused
}

// tokenRequest is a request for a token, before it is known where it goes.
type tokenRequest struct {
	http   *outbound.Client
	auth   *clientAuth
	server *authServer
	form   url.Values
	hidden []string // what of the form must not be shown
	other  string   // token type that is as good as Bearer, empty: none
}

// send asks the token endpoint. Nothing of what was sent that is secret is in
// the error, even if the server repeats it.
func (t *tokenRequest) send(ctx context.Context) (tokensource.Token, error) {
	header := make(http.Header)
	hidden, err := t.auth.apply(t.form, header, t.server)
	if err != nil {
		return tokensource.Token{}, fmt.Errorf("%w: authenticating the client: %w", guards.ErrUnauthorized, err)
	}
	secrets := redact.New(append(hidden, t.hidden...)...)
	ctx = outbound.Hiding(ctx, secrets)
	body := strings.NewReader(t.form.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.server.token.String(), body)
	if err != nil {
		return tokensource.Token{}, errors.New("token endpoint is not a URL")
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header = header
	start := time.Now()
	got, err := t.http.Send(r, t.server.reach)
	if err != nil {
		return tokensource.Token{}, err
	}
	token, err := t.read(got, start, secrets)
	if err != nil {
		return tokensource.Token{}, fmt.Errorf("asking %s: %w", outbound.Place(ctx, t.server.token), err)
	}
	return token, nil
}

// read takes the token, or what went wrong, out of an answer.
func (t *tokenRequest) read(got *outbound.Answer, start time.Time, secrets *redact.Secrets) (tokensource.Token, error) {
	var said tokenAnswer
	err := got.Decode(&said)
	if got.Status != http.StatusOK || err == nil && said.Error != "" {
		return tokensource.Token{}, failed(got, said, secrets)
	}
	if err != nil {
		return tokensource.Token{}, secrets.Error(err)
	}
	if said.AccessToken == "" {
		return tokensource.Token{}, errNoToken
	}
	token, err := credential.CleanToken(said.AccessToken)
	if err != nil {
		return tokensource.Token{}, err
	}
	kind := said.TokenType
	if kind != "" && !strings.EqualFold(kind, "Bearer") && (t.other == "" || !strings.EqualFold(kind, t.other)) {
		return tokensource.Token{}, credential.UnusableError(fmt.Sprintf("token type %q is not supported", outbound.Clip(redact.New(token).Text(secrets.Text(kind)))))
	}
	life, known, err := parseLife(said.ExpiresIn)
	if err != nil || !known {
		return tokensource.Token{Value: token}, err
	}
	return tokensource.Token{Value: token, Expires: start.Add(life)}, nil
}

// failed returns the error that an answer without a token stands for.
func failed(got *outbound.Answer, said tokenAnswer, secrets *redact.Secrets) error {
	after := got.RetryAfter()
	var err error = &outbound.StatusError{Status: got.Status}
	switch code := outbound.Clip(secrets.Text(said.Error)); {
	case code == "":
	case got.Status >= 500 || got.Status == http.StatusTooManyRequests,
		code == "temporarily_unavailable", code == "server_error", code == "slow_down":
		err = fmt.Errorf("%w and error %s", err, code)
	default:
		refused := &refusal{code: code, description: outbound.Clip(secrets.Text(said.Description))}
		if at, err := http.ParseTime(got.Header.Get("Date")); err == nil {
			refused.skew = time.Until(at)
		}
		err = refused
	}
	if after > 0 {
		return &tokensource.RetryAfterError{Err: err, After: after}
	}
	return err
}

// parseLife reads expires_in: seconds, as a number or, from some servers, as a
// string. Without it the life of the token is unknown.
func parseLife(raw json.RawMessage) (life time.Duration, known bool, err error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return 0, false, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) {
		return 0, false, errors.New("expires_in is not a number of seconds")
	}
	if seconds <= 0 {
		return 0, false, tokensource.ErrExpired
	}
	const most = 100 * 365 * 24 * time.Hour
	return time.Duration(min(seconds, most.Seconds()) * float64(time.Second)), true, nil
}
