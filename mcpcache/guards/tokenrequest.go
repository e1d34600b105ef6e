package guards

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

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
)

const (
	errNoToken = unusable("token endpoint issued no token")

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
// change. It counts as [ErrUnauthorized].
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
func (e *refusal) Is(target error) bool { return target == ErrUnauthorized }

// tokenRequest is a request for a token, before it is known where it goes.
type tokenRequest struct {
	http   *endpointClient
	auth   *clientAuth
	server *authServer
	form   url.Values
	hidden []string // what of the form must not be shown
	other  string   // token type that is as good as Bearer, empty: none
}

// send asks the token endpoint. Nothing of what was sent that is secret is in
// the error, even if the server repeats it.
func (t *tokenRequest) send(ctx context.Context) (issued, error) {
	header := make(http.Header)
	hidden, err := t.auth.apply(t.form, header, t.server)
	if err != nil {
		return issued{}, fmt.Errorf("%w: authenticating the client: %w", ErrUnauthorized, err)
	}
	secrets := redact.New(append(hidden, t.hidden...)...)
	ctx = hiding(ctx, secrets)
	body := strings.NewReader(t.form.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.server.token.String(), body)
	if err != nil {
		return issued{}, errors.New("token endpoint is not a URL")
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header = header
	start := time.Now()
	got, err := t.http.send(r, t.server.reach)
	if err != nil {
		return issued{}, err
	}
	token, err := t.read(got, start, secrets)
	if err != nil {
		return issued{}, fmt.Errorf("asking %s: %w", place(ctx, t.server.token), err)
	}
	return token, nil
}

// read takes the token, or what went wrong, out of an answer.
func (t *tokenRequest) read(got *answer, start time.Time, secrets *redact.Secrets) (issued, error) {
	var said tokenAnswer
	err := got.decode(&said)
	if got.status != http.StatusOK || err == nil && said.Error != "" {
		return issued{}, failed(got, said, secrets)
	}
	if err != nil {
		return issued{}, secrets.Error(err)
	}
	if said.AccessToken == "" {
		return issued{}, errNoToken
	}
	token, err := cleanToken(said.AccessToken)
	if err != nil {
		return issued{}, err
	}
	kind := said.TokenType
	if kind != "" && !strings.EqualFold(kind, "Bearer") && (t.other == "" || !strings.EqualFold(kind, t.other)) {
		return issued{}, unusable(fmt.Sprintf("token type %q is not supported", clip(redact.New(token).Text(secrets.Text(kind)))))
	}
	life, known, err := parseLife(said.ExpiresIn)
	if err != nil || !known {
		return issued{token: token}, err
	}
	return issued{token: token, expires: start.Add(life)}, nil
}

// failed returns the error that an answer without a token stands for.
func failed(got *answer, said tokenAnswer, secrets *redact.Secrets) error {
	after := got.retryAfter()
	var err error = &statusError{status: got.status}
	switch code := clip(secrets.Text(said.Error)); {
	case code == "":
	case got.status >= 500 || got.status == http.StatusTooManyRequests,
		code == "temporarily_unavailable", code == "server_error", code == "slow_down":
		err = fmt.Errorf("%w and error %s", err, code)
	default:
		refused := &refusal{code: code, description: clip(secrets.Text(said.Description))}
		if at, err := http.ParseTime(got.header.Get("Date")); err == nil {
			refused.skew = time.Until(at)
		}
		err = refused
	}
	if after > 0 {
		return &retryAfterError{err: err, after: after}
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
		return 0, false, errExpired
	}
	const most = 100 * 365 * 24 * time.Hour
	return time.Duration(min(seconds, most.Seconds()) * float64(time.Second)), true, nil
}
