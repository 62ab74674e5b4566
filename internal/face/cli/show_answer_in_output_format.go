package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

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
