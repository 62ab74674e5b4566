package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/goccy/go-yaml"

	"github.com/millrace/millrace/internal/table"
)

// show writes an answer in the format asked for: the server's document, or the table that render makes of it.
func (s *session) show(document []byte, render func() error) error {
	switch s.format {
	case "json":
		var b bytes.Buffer
		if err := json.Indent(&b, document, "", "  "); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		b.WriteByte('\n')
		_, err := s.Stdout.Write(b.Bytes())
		return err
	case "yaml":
		out, err := yaml.JSONToYAML(document)
		if err != nil {
			return fmt.Errorf("write yaml: %w", err)
		}
		_, err = s.Stdout.Write(out)
		return err
	}
	return render()
}

// write writes a table to stdout.
func (s *session) write(t *table.Table) error { return t.Write(s.Stdout, s.width()) }

// say tells a person something.
func (s *session) say(format string, args ...any) {
	fmt.Fprintf(s.Stderr, format+"\n", args...)
}
