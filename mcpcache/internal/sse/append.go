package sse

// Start and End are what comes before and after the data of a message event.
const (
	Start = "event: message\ndata: "
	End   = "\n\n"
)

// NextLine begins another line of data within an event.
const NextLine = "\ndata: "

// AppendEvent appends data as one message event, with a data line for each of
// its lines. Readers get CR and CRLF back as LF, which JSON does not mind: there
// they are white space. It allocates nothing if dst has room.
func AppendEvent(dst, data []byte) []byte {
	dst = append(dst, Start...)
	dst = AppendData(dst, data)
	return append(dst, End...)
}

// AppendData appends data as it stands between [Start] and [End], with
// [NextLine] in place of each line end. It allocates nothing if dst has room.
func AppendData(dst, data []byte) []byte {
	for {
		line, rest, found := CutLine(data)
		dst = append(dst, line...)
		if !found {
			return dst
		}
		dst = append(dst, NextLine...)
		data = rest
	}
}

// CutLine returns what is before and after the first line end of data: an LF,
// a CR or both. It reports false, and all of data as the line, if there is none.
func CutLine(data []byte) (line, rest []byte, found bool) {
	n := lineEnd(data)
	if n == len(data) {
		return data, nil, false
	}
	line = data[:n]
	if data[n] == '\r' && n+1 < len(data) && data[n+1] == '\n' {
		n++
	}
	return line, data[n+1:], true
}
