package exchange

import (
	"io"
	"net/http"
	"strings"
)

func addMeta(members string) func(*http.Request) {
	return func(r *http.Request) { editBody(r, `"_meta":{`, `"_meta":{`+members+`,`) }
}

func edit(old, replacement string) func(*http.Request) {
	return func(r *http.Request) { editBody(r, old, replacement) }
}

func setHeader(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) {
		if len(values) == 0 {
			r.Header.Del(name)
			return
		}
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
}

// harmlessChanges leave a request valid: the answer is still a hit.
var harmlessChanges = map[string]func(*http.Request){
	"nothing":                 func(*http.Request) {},
	"string id":               edit(`"id":1`, `"id":"a\u0000b"`),
	"large id":                edit(`"id":1`, `"id":9007199254740991`),
	"negative id":             edit(`"id":1`, `"id":-1`),
	"white space":             func(r *http.Request) { editBody(r, `{"jsonrpc"`, "\r\n\t { \"jsonrpc\"") },
	"white space at its end":  func(r *http.Request) { body, _ := io.ReadAll(r.Body); withBody(r, string(body)+" \n") },
	"length not told":         func(r *http.Request) { r.ContentLength = -1 },
	"charset":                 setHeader("Content-Type", "application/json; charset=utf-8"),
	"rather a stream":         setHeader("Accept", "application/json;q=0.1, text/event-stream"),
	"user agent":              setHeader("User-Agent", "test"),
	"Accept-Language":         setHeader("Accept-Language", "ja"),
	"method name escaped":     edit(`"method":"tools/list"`, `"method":"tools\/list"`),
	"method name in unicode":  edit(`"method":"tools/list"`, `"method":"tool\u0073/list"`),
	"members in other order":  edit(`"jsonrpc":"2.0","id":1`, `"id":1,"jsonrpc":"2.0"`),
	"header's odd spelling":   func(r *http.Request) { r.Header.Set("mcp-protocol-VERSION", r.Header.Get("Mcp-Protocol-Version")) },
	"trace":                   setHeader("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
	"Cache-Control: no-cache": setHeader("Cache-Control", "no-cache"),
}

// harmlessModernChanges leave a modern request valid.
var harmlessModernChanges = map[string]func(*http.Request){
	"progress token":  addMeta(`"progressToken":"p"`),
	"progress number": addMeta(`"progressToken":7`),
	"client info":     addMeta(`"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1","title":"T"}`),
	"log level":       addMeta(`"io.modelcontextprotocol/logLevel":"debug"`),
	"trace in _meta":  addMeta(`"traceparent":"00-a-b-01","tracestate":"a=b","baggage":"sentry-trace_id=d, langsmith-tags=e"`),
	"whole client info": addMeta(`"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1","description":"d","websiteUrl":"w",` +
		`"icons":[{"src":"s","mimeType":"image/png","sizes":["48x48"],"theme":"dark","x":1}],"x":1}`),
	"session":               setHeader("Mcp-Session-Id", "ignored"), // 2026-07-28: servers ignore it
	"two sessions":          setHeader("Mcp-Session-Id", "a", "b"),
	"capabilities, spaced":  edit(`clientCapabilities":{}`, `clientCapabilities" : {}`),
	"_meta key escaped":     edit(`io.modelcontextprotocol/protocolVersion`, `io.modelcontextprotocol\/protocolVersion`),
	"revision with escapes": edit(`"2026-07-28"`, `"2026\u002d07-28"`),
}

// deviations have one thing wrong each: why the request is forwarded.
var deviations = map[string]struct {
	change func(*http.Request)
	want   bypass
}{
	"GET":                 {func(r *http.Request) { r.Method = http.MethodGet }, bypassMethod},
	"PUT":                 {func(r *http.Request) { r.Method = http.MethodPut }, bypassMethod},
	"a stream to resume":  {setHeader("Last-Event-Id", "1"), bypassInvalid},
	"escaped path":        {func(r *http.Request) { r.URL.RawPath = "/%6dcp" }, bypassAmbiguous},
	"another method":      {edit("tools/list", "tools/call"), bypassMethod},
	"unknown method":      {edit("tools/list", "tools/List"), bypassMethod},
	"method with a space": {edit("tools/list", "tools/list "), bypassMethod},
	"method is a number":  {edit(`"tools/list"`, `5`), bypassInvalid},
	"no method":           {edit(`,"method":"tools/list"`, ``), bypassInvalid},
	"text":                {setHeader("Content-Type", "text/plain"), bypassType},
	"no type":             {setHeader("Content-Type"), bypassType},
	"UTF-16":              {setHeader("Content-Type", "application/json; charset=utf-16"), bypassType},
	"compressed":          {setHeader("Content-Encoding", "gzip"), bypassType},
	"too large":           {func(r *http.Request) { editBody(r, `{"jsonrpc"`, strings.Repeat(" ", 64<<10)+`{"jsonrpc"`) }, bypassSize},
	"too large, not told": {func(r *http.Request) {
		editBody(r, `{"jsonrpc"`, strings.Repeat(" ", 64<<10)+`{"jsonrpc"`)
		r.ContentLength = -1
	}, bypassSize},
	"batch of one":           {func(r *http.Request) { body, _ := io.ReadAll(r.Body); withBody(r, "["+string(body)+"]") }, bypassBatch},
	"empty batch":            {func(r *http.Request) { withBody(r, "[]") }, bypassBatch},
	"two methods":            {edit(`"method":"tools/list"`, `"method":"tools/list","method":"tools/list"`), bypassAmbiguous},
	"two ids":                {edit(`"id":1`, `"id":1,"id":2`), bypassAmbiguous},
	"method in two cases":    {edit(`"method":"tools/list"`, `"method":"tools/list","Method":"tools/call"`), bypassAmbiguous},
	"method in other case":   {edit(`"method"`, `"METHOD"`), bypassAmbiguous},
	"two equal params":       {edit(`"params":{`, `"params":{"cursor":"a","cursor":"b",`), bypassAmbiguous},
	"empty":                  {func(r *http.Request) { withBody(r, "") }, bypassInvalid},
	"no JSON":                {func(r *http.Request) { withBody(r, "tools/list") }, bypassInvalid},
	"null":                   {func(r *http.Request) { withBody(r, "null") }, bypassInvalid},
	"cut off":                {func(r *http.Request) { body, _ := io.ReadAll(r.Body); withBody(r, string(body[:len(body)-1])) }, bypassInvalid},
	"two messages":           {func(r *http.Request) { body, _ := io.ReadAll(r.Body); withBody(r, string(body)+string(body)) }, bypassInvalid},
	"bad UTF-8":              {edit(`"id":1`, "\"id\":\"\xff\""), bypassInvalid},
	"byte order mark":        {edit(`{"jsonrpc"`, "\ufeff{\"jsonrpc\""), bypassInvalid},
	"JSON-RPC 1.0":           {edit(`"2.0"`, `"1.0"`), bypassInvalid},
	"no jsonrpc":             {edit(`"jsonrpc":"2.0",`, ``), bypassInvalid},
	"jsonrpc is a number":    {edit(`"2.0"`, `2.0`), bypassInvalid},
	"notification":           {edit(`"id":1,`, ``), bypassInvalid},
	"id is null":             {edit(`"id":1`, `"id":null`), bypassInvalid},
	"id is an object":        {edit(`"id":1`, `"id":{}`), bypassInvalid},
	"id is a fraction":       {edit(`"id":1`, `"id":1.5`), bypassInvalid},
	"id is too large":        {edit(`"id":1`, `"id":9007199254740992`), bypassInvalid},
	"id is too small":        {edit(`"id":1`, `"id":-9007199254740992`), bypassInvalid},
	"id is much too large":   {edit(`"id":1`, `"id":12345678901234567890`), bypassInvalid},
	"id is too long":         {edit(`"id":1`, `"id":"`+strings.Repeat("x", 1023)+`"`), bypassInvalid},
	"request and response":   {edit(`"id":1`, `"id":1,"result":{}`), bypassInvalid},
	"unknown member":         {edit(`"id":1`, `"id":1,"extra":true`), bypassInvalid},
	"params is an array":     {func(r *http.Request) { replaceParams(r, `[]`) }, bypassInvalid},
	"params is null":         {func(r *http.Request) { replaceParams(r, `null`) }, bypassInvalid},
	"_meta is null":          {func(r *http.Request) { replaceParams(r, `{"_meta":null}`) }, bypassInvalid},
	"cursor is a number":     {edit(`"params":{`, `"params":{"cursor":5,`), bypassInvalid},
	"cursor is null":         {edit(`"params":{`, `"params":{"cursor":null,`), bypassInvalid},
	"unknown param":          {edit(`"params":{`, `"params":{"filter":"x",`), bypassParams},
	"uri":                    {edit(`"params":{`, `"params":{"uri":"file:///a",`), bypassParams},
	"name":                   {edit(`"params":{`, `"params":{"name":"x",`), bypassParams},
	"input responses":        {edit(`"params":{`, `"params":{"inputResponses":{},`), bypassParams},
	"request state":          {edit(`"params":{`, `"params":{"requestState":"x",`), bypassParams},
	"unknown _meta":          {addMeta(`"com.example/x":1`), bypassMeta},
	"bad progress token":     {addMeta(`"progressToken":{}`), bypassInvalid},
	"fraction of progress":   {addMeta(`"progressToken":1.5`), bypassInvalid},
	"baggage":                {addMeta(`"baggage":"userId=2"`), bypassMeta},
	"baggage, escaped":       {addMeta(`"baggage":"sentry-a=b\u002cuserId=2"`), bypassMeta},
	"two lines of Accept":    {setHeader("Accept", "application/json", "text/event-stream"), bypassAccept},
	"Accept twice":           {setHeader("Accept", bothTypes, bothTypes), bypassAccept},
	"no Accept":              {setHeader("Accept"), bypassAccept},
	"Accept JSON only":       {setHeader("Accept", "application/json"), bypassAccept},
	"Accept a stream only":   {setHeader("Accept", "text/event-stream"), bypassAccept},
	"Accept everything":      {setHeader("Accept", "*/*"), bypassAccept},
	"two revisions":          {func(r *http.Request) { r.Header.Add("Mcp-Protocol-Version", r.Header.Get("Mcp-Protocol-Version")) }, bypassRevision},
	"unknown revision":       {setHeader("Mcp-Protocol-Version", "2024-11-05"), bypassRevision},
	"empty revision":         {setHeader("Mcp-Protocol-Version", ""), bypassRevision},
	"revision and space":     {func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", r.Header.Get("Mcp-Protocol-Version")+" ") }, bypassRevision},
	"another list's header":  {setHeader("Mcp-Method", "prompts/list"), bypassRevision},
	"uncached method header": {setHeader("Mcp-Method", "tools/call"), bypassMethod},
	"signed":                 {setHeader("Signature-Input", `sig=("@method")`), bypassSigned},
	"signed for AWS":         {setHeader("Authorization", "AWS4-HMAC-SHA256 Credential=a"), bypassSigned},
}

// modernDeviations are wrong in the modern era only.
var modernDeviations = map[string]struct {
	change func(*http.Request)
	want   bypass
}{
	"no _meta":                   {func(r *http.Request) { replaceParams(r, `{}`) }, bypassRevision},
	"no revision in _meta":       {edit(`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`, ``), bypassRevision},
	"no capabilities":            {edit(`,"io.modelcontextprotocol/clientCapabilities":{}`, ``), bypassRevision},
	"capabilities are null":      {edit(`clientCapabilities":{}`, `clientCapabilities":null`), bypassInvalid},
	"capabilities are an array":  {edit(`clientCapabilities":{}`, `clientCapabilities":[]`), bypassInvalid},
	"other revision in _meta":    {edit(`"2026-07-28"`, `"2025-11-25"`), bypassRevision},
	"unknown revision in _meta":  {edit(`"2026-07-28"`, `"2027-01-01"`), bypassRevision},
	"revision is a number":       {edit(`"2026-07-28"`, `2026`), bypassInvalid},
	"revision key in other case": {edit(`protocolVersion"`, `ProtocolVersion"`), bypassAmbiguous},
	"bad client info":            {addMeta(`"io.modelcontextprotocol/clientInfo":{"name":"n"}`), bypassInvalid},
	"bad log level":              {addMeta(`"io.modelcontextprotocol/logLevel":5`), bypassInvalid},
	"large progress token":       {addMeta(`"progressToken":9007199254740992`), bypassInvalid},
	"unknown log level":          {addMeta(`"io.modelcontextprotocol/logLevel":"zz"`), bypassInvalid},
	"title is a number":          {addMeta(`"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1","title":5}`), bypassInvalid},
	"bad icon":                   {addMeta(`"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1","icons":[{"src":5}]}`), bypassInvalid},
	"legacy header":              {setHeader("Mcp-Protocol-Version", "2025-11-25"), bypassRevision},
	"no header":                  {setHeader("Mcp-Protocol-Version"), bypassRevision},
	"no method header":           {setHeader("Mcp-Method"), bypassRevision},
	"two method headers":         {setHeader("Mcp-Method", "tools/list", "tools/list"), bypassRevision},
	"method header's case":       {setHeader("Mcp-Method", "Tools/List"), bypassMethod},
	"a name":                     {setHeader("Mcp-Name", "x"), bypassRevision},
	"an empty name":              {setHeader("Mcp-Name", ""), bypassRevision},
	"a parameter header":         {setHeader("Mcp-Param-Region", "eu"), bypassRevision},
}

// legacyDeviations are wrong in the legacy era only.
var legacyDeviations = map[string]struct {
	change func(*http.Request)
	want   bypass
}{
	"two sessions":        {setHeader("Mcp-Session-Id", "session", "session"), bypassRevision},
	"empty session":       {setHeader("Mcp-Session-Id", ""), bypassRevision},
	"cursor":              {edit(`"params":{`, `"params":{"cursor":"2",`), bypassCursor},
	"empty cursor":        {edit(`"params":{`, `"params":{"cursor":"",`), bypassCursor},
	"modern header":       {setHeader("Mcp-Protocol-Version", "2026-07-28"), bypassRevision},
	"modern _meta":        {addMeta(`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`), bypassRevision},
	"capabilities only":   {addMeta(`"io.modelcontextprotocol/clientCapabilities":{}`), bypassRevision},
	"legacy one in _meta": {addMeta(`"io.modelcontextprotocol/protocolVersion":"2025-11-25"`), bypassRevision},
	"another's session":   {setHeader("Mcp-Session-Id", "session-of-bob"), bypassAdmission},
	"unknown session":     {setHeader("Mcp-Session-Id", "never-seen"), bypassAdmission},
	"another credential":  {setHeader("Authorization", "Bearer bob"), bypassAdmission},
	"no session":          {setHeader("Mcp-Session-Id"), bypassAdmission},
	"another revision": {func(r *http.Request) {
		r.Header.Set("Mcp-Protocol-Version", another(r.Header.Get("Mcp-Protocol-Version")))
	}, bypassAdmission},
	"discover": {edit("tools/list", "server/discover"), bypassRevision},
}

// another returns a legacy revision besides that one.
func another(version string) string {
	if version == "2025-06-18" {
		return "2025-11-25"
	}
	return "2025-06-18"
}

// replaceParams gives a request other params.
func replaceParams(r *http.Request, params string) {
	body, err := io.ReadAll(r.Body)
	head, _, ok := strings.Cut(string(body), `"params":`)
	if err != nil || !ok {
		panic("no params")
	}
	withBody(r, head+`"params":`+params+`}`)
}
