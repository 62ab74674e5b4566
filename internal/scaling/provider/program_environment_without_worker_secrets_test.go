package provider

import (
	"slices"
	"strings"
	"testing"
)

func TestChildrenGetNoSecrets(t *testing.T) {
	t.Parallel()
	got := Environment([]string{"PATH=/bin", "MILLRACE_TOKENS=t", "HF_TOKEN=h", "AXIOM_TOKEN=a", "TEMPORAL_API_KEY=k",
		"NOTIFY_SOCKET=/run/n", "HOME=/root"})
	if want := []string{"PATH=/bin", "HF_TOKEN=h", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLastWordsAreFewAndHarmless(t *testing.T) {
	t.Parallel()
	if got := LastWords([]byte("1\n2\n3\n4\n5\n6\n7\x1b[31m\n\n")); strings.Contains(got, "\x1b") ||
		!strings.HasPrefix(got, "2\n3") {
		t.Errorf("%q", got)
	}
	if got := LastWords([]byte(strings.Repeat("x\xff", 10_000))); len(got) > 4<<10 {
		t.Errorf("%d bytes", len(got))
	}
	if got := LastWords(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	env := []string{"HF_TOKEN=hf_abcdef", "MODEL=Qwen/Qwen2.5", "aws_secret_access_key=k+/=12345", "KEY=on", "EMPTY_KEY="}
	got := Redact("+ curl -H hf_abcdef k+/=12345 Qwen/Qwen2.5 on", env)
	if want := "+ curl -H [HF_TOKEN] [aws_secret_access_key] Qwen/Qwen2.5 on"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
