package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/goccy/go-yaml"
	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"
)

// showValue shows what a command has put together itself.
func (s *session) showValue(v any, render func() error) error {
	document, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return s.show(document, render)
}

// show writes an answer in the format asked for: the server's document, or the table that render makes of it.
func (s *session) show(document []byte, render func() error) error {
	switch s.format {
	case "json":
		var b bytes.Buffer
		if err := json.Indent(&b, document, "", "  "); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		b.WriteByte('\n')
		_, err := s.Stdout.Write(escapeControls(b.Bytes()))
		return err
	case "yaml":
		out, err := yaml.JSONToYAML(document)
		if err != nil {
			return fmt.Errorf("write yaml: %w", err)
		}
		_, err = s.Stdout.Write(bytes.Map(hideControl, out))
		return err
	}
	if render == nil {
		return nil
	}
	return render()
}

// showText shows an answer, and in the place of a table a text that is harmless on a terminal.
func (s *session) showText(document []byte, render func(io.Writer) error) error {
	return s.show(document, func() error {
		var text strings.Builder
		if err := render(&text); err != nil {
			return err
		}
		_, err := io.WriteString(s.Stdout, termtext.Block(text.String()))
		return err
	})
}

// What engines and trainers are called comes from anywhere, and a terminal obeys some characters.

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

// write writes a table to stdout.
func (s *session) write(t *table.Table) error { return t.Write(s.Stdout, s.width()) }

// writeLine writes a document as a line of JSON.
func (s *session) writeLine(document []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, document); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	_, err := s.Stdout.Write(append(escapeControls(line.Bytes()), '\n'))
	return err
}

// narrowest is a terminal that something can be shown on.
const narrowest = 40

func (s *session) width() int { return Width(s.Stdout, s.Getenv) }

// Width is the columns of the terminal behind w, or what COLUMNS says; 0 when w is no terminal or does not tell.
func Width(w io.Writer, getenv func(string) string) int {
	if !terminal(w) {
		return 0
	}
	columns, err := strconv.Atoi(getenv("COLUMNS"))
	if err != nil {
		columns = columnsOf(w)
	}
	if columns < narrowest {
		return 0
	}
	return columns
}

// columnsOf asks a terminal for its width; 0 when it does not say.
func columnsOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// terminal reports whether a person looks at what is written to w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
