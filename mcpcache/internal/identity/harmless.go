package identity

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// harmless reports whether a request header does not tell callers apart. A header
// that is not here may be an unknown kind of credential, or choose what the server
// lists, so each value of it is an authorization context of its own: better to fetch
// a list too often than to give it to somebody else. The names are canonical. (A
// switch takes half the time of a map, eight times a request.)
//
// Of the headers that proxies add, the common ones are here: without them there
// would be no hits behind a proxy. Some hold the client's address: for a server that
// lists by that, or by anything else here, there is the option partition. Not here
// are Forwarded and X-Original-Url, since servers may use the Host and the path in
// them, and session IDs of any kind but MCP's.
func harmless(name string) bool {
	switch name {
	case
		// the message and its representation
		"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language",
		"Content-Length", "Content-Type", "Expect", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Upgrade-Insecure-Requests", "Connection", "Keep-Alive", "Proxy-Connection", "Priority", "Range",
		"Cache-Control", "Pragma", "If-None-Match", "If-Modified-Since", "Date",
		// MCP
		"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-Id",
		// what a browser or client says of itself
		"User-Agent", "Origin", "Referer", "Host", "Dnt", "Save-Data", "Sec-Ch-Ua", "Sec-Ch-Ua-Mobile",
		"Sec-Ch-Ua-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User",
		"Sec-Fetch-Storage-Access", "Sec-Gpc", "X-Requested-With", "X-Stainless-Arch", "X-Stainless-Async",
		"X-Stainless-Lang", "X-Stainless-Os", "X-Stainless-Package-Version", "X-Stainless-Runtime",
		"X-Stainless-Runtime-Version",
		// the way the request came (Cf-Warp-Tag-Id names cloudflared's end of a tunnel, not a client)
		"Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto",
		"X-Forwarded-Server", "X-Forwarded-Scheme", "X-Real-Ip", "X-Envoy-External-Address",
		"X-Envoy-Expected-Rq-Timeout-Ms", "X-Envoy-Attempt-Count", "Cdn-Loop", "Cf-Connecting-Ip", "Cf-Ipcountry",
		"Cf-Ray", "Cf-Visitor", "Cf-Warp-Tag-Id", "True-Client-Ip", "Fly-Client-Ip", "Fly-Region", "Fly-Request-Id",
		"Early-Data",
		// tracing
		"Traceparent", "Tracestate", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid",
		"X-B3-Sampled", "X-B3-Flags", "X-Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context",
		"X-Datadog-Trace-Id", "X-Datadog-Parent-Id", "X-Datadog-Sampling-Priority", "X-Datadog-Tags",
		"X-Datadog-Origin", "Sentry-Trace", "Uber-Trace-Id", "Request-Id", "Newrelic", "X-Trace-Id", "X-Span-Id",
		"X-Client-Trace-Id", "X-Client-Request-Id", "X-Ms-Client-Request-Id", "X-Amzn-Requestid",
		"Elastic-Apm-Traceparent", "X-Litellm-Trace-Id", "Langsmith-Trace", "Grpc-Trace-Bin",
		// retries and deadlines
		"Idempotency-Key", "X-Idempotency-Key", "X-Stainless-Retry-Count", "X-Stainless-Timeout",
		"X-Stainless-Read-Timeout", "Grpc-Timeout", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request":
		return true
	}
	return false
}

// Headers has the canonical names of headers that an operator calls harmless, and of cookies those
// behind "Cookie:".
type Headers map[string]bool

// Has reports whether a header, by its canonical name, does not tell callers
// apart: one that is known not to, or that the operator has named.
func (h Headers) Has(name string) bool { return harmless(name) || h[name] }

// ParseHeaders reads the values of the option harmless. An error names the one
// that is no header, or a credential.
func ParseHeaders(names []string) (Headers, error) {
	set := make(Headers, len(names))
	for _, name := range names {
		switch canonical := http.CanonicalHeaderKey(name); {
		case IsCookie(name):
			set[cookiePrefix+name[len(cookiePrefix):]] = true
		case !httpguts.ValidHeaderFieldName(name), strings.Contains(name, "*"):
			return nil, fmt.Errorf("harmless: %q is not the name of a header, or of a cookie behind %s", name, cookiePrefix)
		case IsCredential(name):
			return nil, fmt.Errorf("harmless: %s says who a caller is; without it, one would be given the lists of another", canonical)
		default:
			set[canonical] = true
		}
	}
	return set, nil
}

// cookiePrefix is before the name of a cookie in the option harmless.
const cookiePrefix = "Cookie:"

// IsCookie reports whether a value of the option harmless is a cookie, such as
// "Cookie:AWSALB". Load balancers change theirs in each answer, to pick the server of the next
// request; they say nothing of who asks.
func IsCookie(value string) bool {
	return len(value) > len(cookiePrefix) && strings.EqualFold(value[:len(cookiePrefix)], cookiePrefix) &&
		httpguts.ValidHeaderFieldName(value[len(cookiePrefix):]) && !strings.Contains(value, "*")
}

// Rest returns what of a value of a header counts, and whether anything does: not the cookies
// that the operator calls harmless, nor what tracers put into Baggage.
func (h Headers) Rest(name, value string) (rest string, counts bool) {
	switch {
	case name == baggage:
		rest = withoutTracers(value)
		return rest, rest != ""
	case name == "Cookie" && len(h) > 0:
		cookies := strings.Split(value, ";")
		cookies = slices.DeleteFunc(cookies, func(cookie string) bool {
			name, value, _ := strings.Cut(strings.Trim(cookie, " "), "=")
			// Servers differ in what else may be in a value: some end it there, and begin another cookie.
			return h[cookiePrefix+name] && !strings.ContainsAny(value, " \t,\"\\")
		})
		rest = strings.TrimSpace(strings.Join(cookies, ";"))
		return rest, rest != ""
	}
	return value, true
}

// credentials are headers by which servers, or handlers and proxies in front of
// them, know a caller. The names are canonical.
var credentials = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "Dpop", "Signature", "Signature-Input",
	"Remote-User", "X-Remote-User", "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups",
	"X-Forwarded-Preferred-Username", "Ocp-Apim-Subscription-Key", "X-Functions-Key", "Private-Token", "Token", "X-Token",
}

// credentialWords are in the names of other such headers.
var credentialWords = []string{
	"authorization", "auth-request", "authenticated", "api-key", "apikey", "access-key", "auth-token", "access-token",
	"id-token", "security-token", "session-token", "client-cert", "assertion", "client-principal", "oidc", "jwt",
	"password", "secret", "credential",
}

// IsCredential reports whether a request header is known to say who a caller
// is. Others may do so too.
func IsCredential(name string) bool {
	return slices.Contains(credentials, http.CanonicalHeaderKey(name)) || hasWord(name, credentialWords)
}

// hasWord reports whether the name of a header has one of the words in it.
func hasWord(name string, words ...[]string) bool {
	name = strings.ToLower(name)
	for _, some := range words {
		for _, word := range some {
			if strings.Contains(name, word) {
				return true
			}
		}
	}
	return false
}

// baggage is a header of values that belong to a whole trace (W3C Baggage). Tracers
// add values that are new in each trace. Servers may go by others, such as a
// tenant's name.
const baggage = "Baggage"

// IsTracers reports whether a Baggage value has only members that tracers add, which
// do not tell callers apart.
func IsTracers(value string) bool { return withoutTracers(value) == "" }

// withoutTracers returns the members of a Baggage header that tracers do not add.
func withoutTracers(value string) string {
	var rest strings.Builder
	for member := range strings.SplitSeq(value, ",") {
		member = strings.TrimSpace(member)
		if member == "" || strings.HasPrefix(member, "sentry-") || strings.HasPrefix(member, "langsmith-") {
			continue
		}
		rest.WriteString(member)
		rest.WriteByte(',')
	}
	return rest.String()
}
