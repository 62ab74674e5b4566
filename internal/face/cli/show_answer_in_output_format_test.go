package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestNothingThatATerminalObeysIsWritten: an engine says what its version is called, and may say an escape sequence.
func TestNothingThatATerminalObeysIsWritten(t *testing.T) {
	t.Parallel()
	name := "v1\x1b[31m\u009b2J\x7f\r"
	document, err := json.Marshal(map[string]string{"version": name})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"yaml", "json"} {
		var out bytes.Buffer
		s := &session{Deps: Deps{Stdout: &out}, format: format}
		if err := s.show(document, nil); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\u009b\x7f\r") {
			t.Errorf("%s: %q", format, out.String())
		}
		var back map[string]string
		if format == "json" && (json.Unmarshal(out.Bytes(), &back) != nil || back["version"] != name) {
			t.Errorf("the JSON says %q, want %q", back["version"], name)
		}
	}
}
