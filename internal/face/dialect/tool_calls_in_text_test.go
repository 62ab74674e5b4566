package dialect

import (
	"encoding/json"
	"regexp"
	"testing"
)

// TestArgumentsAreJSON: what the constraint lets an engine write is a value that JSON has: no number begins with a
// needless 0.
func TestArgumentsAreJSON(t *testing.T) {
	t.Parallel()
	whole := regexp.MustCompile("^(" + value + ")$")
	for _, text := range []string{"0", "-7", "718260885", "0.5", "-6.518", `"a"`, `""`, "true", "null",
		"0718260885", "-01", "00", "1.", ".5", "a", `"a`} {
		if got, want := whole.MatchString(text), json.Valid([]byte(text)); got != want {
			t.Errorf("%s: allowed %v, is JSON %v", text, got, want)
		}
	}
}
