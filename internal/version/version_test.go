package version

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for _, tt := range []struct {
		name     string
		settings []debug.BuildSetting
		want     string
	}{
		{"a commit", []debug.BuildSetting{commit, {Key: "vcs.modified", Value: "false"}}, "0123456789ab"},
		{"a commit with changes", []debug.BuildSetting{commit, {Key: "vcs.modified", Value: "true"}}, "0123456789ab+changes"},
		{"no commit", nil, ""},
	} {
		if got := ofCommit(tt.settings); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := ofModule("(devel)"); got != "unknown" {
		t.Errorf("a build that says nothing is %q", got)
	}
	if got := ofModule("v1.2.3"); got != "v1.2.3" {
		t.Errorf("a module's version is %q", got)
	}
}
