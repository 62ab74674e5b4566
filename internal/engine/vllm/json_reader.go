package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// jsonReader reads a JSON text once, from first byte to last, and allocates values only for the wanted parts, a fifth
// of an answer. It accepts what encoding/json does, but matches keys by case. The first fault stops it.
type jsonReader struct {
	text []byte
	at   int
	err  error
}

// maxNesting is deeper than any honest answer, and far from where a stack would be large.
const maxNesting = 200

func (r *jsonReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: "+format, append([]any{r.at}, args...)...)
	}
	r.at = len(r.text)
}

// peek is the next byte that is not space; 0 at the end.
func (r *jsonReader) peek() byte {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return c
		}
	}
	return 0
}

// take moves past a byte if it is next.
func (r *jsonReader) take(c byte) bool {
	if r.peek() != c || r.at >= len(r.text) {
		return false
	}
	r.at++
	return true
}

func (r *jsonReader) want(c byte) {
	if !r.take(c) {
		r.fail("want %q, and have %s", c, r.here())
	}
}

// here quotes the start of the unread text.
func (r *jsonReader) here() string {
	const most = 24
	return abridged(string(r.text[r.at:min(len(r.text), r.at+most)]))
}

// null reads null if it is next.
func (r *jsonReader) null() bool {
	if r.peek() != 'n' {
		return false
	}
	r.literal("null")
	return r.err == nil
}

func (r *jsonReader) literal(word string) {
	if !bytes.HasPrefix(r.text[r.at:], []byte(word)) {
		r.fail("want a value, and have %s", r.here())
		return
	}
	r.at += len(word)
}

// object calls do with each key, which must read its value. A key that comes twice is read twice.
func (r *jsonReader) object(do func(key []byte)) {
	r.want('{')
	if r.take('}') {
		return
	}
	for r.err == nil {
		r.peek()
		key := r.raw()
		if r.err != nil {
			return
		}
		r.want(':')
		do(key[1 : len(key)-1])
		if r.take('}') {
			return
		}
		r.want(',')
	}
}

// list calls do for each element, which it must read.
func (r *jsonReader) list(do func()) {
	r.want('[')
	if r.take(']') {
		return
	}
	for r.err == nil {
		do()
		if r.take(']') {
			return
		}
		r.want(',')
	}
}

// raw is a string as it is written, quotes included.
func (r *jsonReader) raw() []byte {
	from := r.at
	if r.at >= len(r.text) || r.text[r.at] != '"' {
		r.fail("want a string, and have %s", r.here())
		return nil
	}
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[from:r.at]
		case c < ' ':
			r.fail("a control character in a string")
			return nil
		case c == '\\':
			if r.at++; !r.escape() {
				r.fail("an escape that JSON does not have")
				return nil
			}
		}
	}
	r.fail("a string without end")
	return nil
}

// escape moves to the last letter of an escape, and reports whether it is one.
func (r *jsonReader) escape() bool {
	if r.at >= len(r.text) {
		return false
	}
	switch r.text[r.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if r.at++; r.at >= len(r.text) || !isHex(r.text[r.at]) {
				return false
			}
		}
		return true
	}
	return false
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// string reads a string; null is an empty one.
func (r *jsonReader) string() string {
	if r.null() {
		return ""
	}
	raw := r.raw()
	if r.err != nil {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		r.fail("%w", err)
	}
	return s
}

// number is a number as it is written.
func (r *jsonReader) number() []byte {
	r.peek()
	from := r.at
	r.skipByte('-')
	if !r.skipByte('0') && r.digits() == 0 {
		r.fail("want a number, and have %s", r.here())
		return nil
	}
	if r.skipByte('.') && r.digits() == 0 {
		r.fail("a number without digits behind its point")
		return nil
	}
	if r.skipByte('e') || r.skipByte('E') {
		if !r.skipByte('+') {
			r.skipByte('-')
		}
		if r.digits() == 0 {
			r.fail("a number without digits in its exponent")
			return nil
		}
	}
	return r.text[from:r.at]
}

func (r *jsonReader) skipByte(c byte) bool {
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *jsonReader) digits() int {
	from := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at - from
}

// skip reads any value.
func (r *jsonReader) skip() { r.skipNested(0) }

func (r *jsonReader) skipNested(depth int) {
	if depth > maxNesting {
		r.fail("values nested deeper than %d", maxNesting)
		return
	}
	switch c := r.peek(); c {
	case '{':
		r.object(func([]byte) { r.skipNested(depth + 1) })
	case '[':
		r.list(func() { r.skipNested(depth + 1) })
	case '"':
		r.raw()
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

var errTrailing = errors.New("more behind the answer")

// end reports the first fault; anything left is one.
func (r *jsonReader) end() error {
	if r.err == nil && r.peek() != 0 || r.err == nil && r.at < len(r.text) {
		return errTrailing
	}
	return r.err
}
