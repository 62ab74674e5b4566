package version

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	at := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-23T08:00:00Z"}
	for _, tt := range []struct {
		name       string
		settings   []debug.BuildSetting
		want, date string
	}{
		{"a commit", []debug.BuildSetting{commit, at, {Key: "vcs.modified", Value: "false"}}, "0123456789ab",
			"2026-11-23T08:00:00Z"},
		{"a commit with changes", []debug.BuildSetting{commit, {Key: "vcs.modified", Value: "true"}}, "0123456789ab+changes",
			""},
		{"no commit", []debug.BuildSetting{at}, "", ""},
	} {
		if got, date := ofCommit(tt.settings); short(got) != tt.want || date != tt.date {
			t.Errorf("%s: %q of %q, want %q of %q", tt.name, short(got), date, tt.want, tt.date)
		}
	}
	if got := ofModule("(devel)"); got != "unknown" {
		t.Errorf("a build that says nothing is %q", got)
	}
	if got := ofModule("v1.2.3"); got != "v1.2.3" {
		t.Errorf("a module's version is %q", got)
	}
}

func TestBuildAsText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		build Info
		want  string
	}{
		{Info{Version: "v1.2.3", Commit: "0123456789abcdef0123+changes", Date: "2026-11-23T08:00:00Z", Go: "go1.26.8",
			OS: "linux", Arch: "arm64"},
			"millrace v1.2.3, commit 0123456789ab+changes of 2026-11-23T08:00:00Z, go1.26.8 linux/arm64"},
		{Info{Version: "unknown", Go: "go1.26.8", OS: "linux", Arch: "amd64"}, "millrace unknown, go1.26.8 linux/amd64"},
	} {
		if got := tt.build.String(); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
