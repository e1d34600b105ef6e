//go:build race

package lists

// siteLog is nothing here: Caddy counts the bytes of a request's body while its
// transport reads them, and reads the count for the log when the answer has ended,
// without making one wait for the other. The race detector sees that now and then.
const siteLog = ""
