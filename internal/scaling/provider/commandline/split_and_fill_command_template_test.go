package commandline

import (
	"os/exec"
	"strings"
	"testing"
)

func TestWordsAreAShellsWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`vllm serve m --port {port}`:        `vllm|serve|m|--port|{port}`,
		`sh -c 'echo "a  b" $HOME'`:         `sh|-c|echo "a  b" $HOME`,
		`a "b c" d\ e`:                      `a|b c|d e`,
		`a "" ''`:                           `a||`,
		`--x='{"level": 3}'`:                `--x={"level": 3}`,
		`"a\"b\\c\d\$e"`:                    `a"b\c\d$e`,
		"a \\\n  b\n\tc":                    `a|b|c`,
		`'it'"'"'s'`:                        `it's`,
		`/opt/my\ engines/run --name "é ü"`: `/opt/my engines/run|--name|é ü`,
		``:                                  ``,
		`   `:                               ``,
	} {
		got, err := Split(text)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q is %q (%v), want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`a 'b`, `a "b`, `a \`, `"a\`} {
		if got, err := Split(text); err == nil {
			t.Errorf("%q is %q, want an error", text, got)
		}
	}
}

// FuzzSplit holds what is split against a shell, which gives back the same words.
func FuzzSplit(f *testing.F) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		f.Skip("there is no shell to compare with:", err)
	}
	f.Add(`a "b c" d\ e 'f"g'`)
	f.Add(`x"y"'z' \\ ""`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "$`*?[]~#;&|<>(){}!=\x00\r\x01\n") || len(text) > 100 {
			t.Skip("a shell does more with it")
		}
		got, err := Split(text)
		out, shellErr := exec.Command(shell, "-c", `printf '%s\001' `+text).Output()
		if err != nil {
			return // a shell may take what is not closed for a fault only at the end
		}
		if shellErr != nil {
			t.Fatalf("%q is %q, and a shell refuses it: %v", text, got, shellErr)
		}
		want := strings.TrimSuffix(string(out), "\x01")
		if strings.Join(got, "\x01") != want {
			t.Errorf("%q is %q, a shell has %q", text, got, want)
		}
	})
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	known := []string{"{port}", "{id}"}
	for text, want := range map[string]string{
		"{port}": "", "a{id}b{port}": "", `{"level":3}`: "", "{prot}": "{prot}", "{}": "", "{ port }": "",
	} {
		if got := Unknown(text, known); got != want {
			t.Errorf("%s: %q cannot be filled in, want %q", text, got, want)
		}
	}
	if got := Fill("{port} {id} {other}", map[string]string{"{port}": "{id}", "{id}": "a b"}); got != "{id} a b {other}" {
		t.Errorf("filled in: %s", got)
	}
}
