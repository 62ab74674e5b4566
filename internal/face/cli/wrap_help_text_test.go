package cli

import (
	"strings"
	"testing"
)

func TestFoldText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30)
	for _, tt := range []struct{ name, text, want string }{
		{"short lines stay", "one\ntwo\n\n  a table  b\n", "one\ntwo\n\n  a table  b\n"},
		{"a long line is wrapped with its paragraph", "begin\n" + long + "\n\nnext",
			"begin " + strings.TrimSpace(strings.Repeat("word ", 19)) + "\n" +
				strings.TrimSpace(strings.Repeat("word ", 11)) + "\n\nnext"},
		{"what is indented stays", "  " + long, "  " + long},
	} {
		if got := foldText(tt.text); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
