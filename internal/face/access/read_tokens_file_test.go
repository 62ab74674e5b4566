package access_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/access"
)

func TestReadTokens(t *testing.T) {
	t.Parallel()
	hash := access.HashOf("x").String()
	grants, err := access.ReadTokens("tokens.yaml", []byte(`tokens:
  - {name: alice, role: operator, sha256: `+hash+`}
  - {name: t1, role: trainer, runs: ["diplomacy-*"], sha256: `+access.HashOf("y").String()+`, expires: 2027-01-31T00:00:00Z}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(grants) != 2 || grants[0].Hash != access.HashOf("x") || !grants[1].Covers("diplomacy-7b") ||
		grants[1].Expires.Year() != 2027 {
		t.Errorf("got %+v", grants)
	}
}

// TestFaultyTokensAreRefusedWithTheirPlaces: and what may be a token by mistake is not repeated.
func TestFaultyTokensAreRefusedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	hash := access.HashOf("x").String()
	for _, tt := range []struct{ name, text, says string }{
		{"a plain token", "tokens: [{name: a, role: operator, sha256: my-secret-token-in-plain}]", "64 hexadecimal digits"},
		{"under its own key", "tokens: [{name: a, role: operator, token: my-secret-token-in-plain}]", "never stands here"},
		{"no role", "tokens: [{name: a, sha256: " + hash + "}]", "role"},
		{"another role", "tokens: [{name: a, role: root, sha256: " + hash + "}]", "operator"},
		{"a trainer of nothing", "tokens: [{name: a, role: trainer, sha256: " + hash + "}]", "runs"},
		{"an operator of some", "tokens: [{name: a, role: operator, runs: [x], sha256: " + hash + "}]", "every run"},
		{"a pattern that no run has", `tokens: [{name: a, role: reader, runs: ["A B"], sha256: ` + hash +
			"}]", "a run's name"},
		{"one name twice", "tokens: [{name: a, role: operator, sha256: " + hash + "}, {name: a, role: operator, sha256: " +
			access.HashOf("y").String() + "}]", "the same"},
		{"one token twice", "tokens: [{name: a, role: operator, sha256: " + hash + "}, {name: b, role: operator, sha256: " +
			hash + "}]", "the same"},
		{"an end that is no time", "tokens: [{name: a, role: operator, expires: tomorrow, sha256: " + hash +
			"}]", "tomorrow"},
		{"control characters in a name", `tokens: [{name: "a\u001b[31m", role: operator, sha256: ` + hash +
			"}]", "printable"},
		{"empty", "", "empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := access.ReadTokens("tokens.yaml", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "tokens.yaml") {
				t.Fatalf("%v; want it to say %q", err, tt.says)
			}
			if strings.Contains(err.Error(), "my-secret") {
				t.Errorf("it repeats the token: %v", err)
			}
		})
	}
}
