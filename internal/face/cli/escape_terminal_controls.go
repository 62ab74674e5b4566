package cli

import (
	"bytes"
	"fmt"
	"unicode/utf16"

	"github.com/millrace/millrace/internal/kit/termtext"
)

// hideControl takes the place of characters that a terminal would obey.
func hideControl(r rune) rune {
	if r != '\n' && r != '\t' && termtext.Obeyed(r) {
		return '\uFFFD'
	}
	return r
}

// escapeControls writes in JSON's own way the characters that a terminal obeys and JSON may hold as they are.
func escapeControls(document []byte) []byte {
	if !bytes.ContainsFunc(document, func(r rune) bool { return r >= 0x7f && termtext.Obeyed(r) }) {
		return document
	}
	var b bytes.Buffer
	for _, r := range string(document) {
		if r >= 0x7f && termtext.Obeyed(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, "\\u%04x", unit)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.Bytes()
}
