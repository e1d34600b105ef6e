package sse

import "strings"

// Format is how the body of an answer is written, as far as notices go.
type Format uint8

const (
	// Unwatched is a body in which nobody looks for messages.
	Unwatched Format = iota
	// JSON is one message, or an array of them.
	JSON
	// Stream is an event stream.
	Stream
	// Unreadable is a body with messages in a coding or character set that is
	// not read here. Whatever arrives on it could be any notice.
	Unreadable
)

// FormatOf returns the format of an answer with those values of Content-Type and
// Content-Encoding. It is as generous with types as clients are: what a GET
// brings, some read as a stream whatever its type.
func FormatOf(get bool, contentType, contentEncoding []string) Format {
	if !get && len(contentType) == 1 && contentType[0] == "application/json" && contentEncoding == nil {
		return JSON // as nearly every answer
	}
	format := Unwatched
	if get {
		format = Stream
	}
	for _, value := range contentType {
		switch value = strings.ToLower(value); {
		case strings.Contains(value, "event-stream"):
			format = Stream
		case format != Stream && strings.Contains(value, "json"):
			format = JSON
		}
	}
	if format != Unwatched && (encoded(contentEncoding) || otherCharset(contentType)) {
		return Unreadable
	}
	return format
}

func encoded(contentEncoding []string) bool {
	for _, value := range contentEncoding {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return true
			}
		}
	}
	return false
}

// otherCharset reports whether a character set is named in which JSON could look
// different from what it is in UTF-8.
func otherCharset(contentType []string) bool {
	for _, value := range contentType {
		_, rest, found := strings.Cut(strings.ToLower(value), "charset")
		for found {
			name, more, _ := strings.Cut(rest, ";")
			switch strings.Trim(name, "= \t\"'") {
			case "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252":
			default:
				return true
			}
			_, rest, found = strings.Cut(more, "charset")
		}
	}
	return false
}
