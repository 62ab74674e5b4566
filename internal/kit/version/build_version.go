// Package version names the build of this program. Start reading at Build.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// What the Makefile says of a build: -ldflags "-X .../internal/kit/version.released=v1.2.3". Go itself knows the commit
// only where the build was made in a checkout, and with -buildvcs.
var (
	released string // the version of the release
	commit   string // its commit's name, "+changes" behind it if files were changed since
	date     string // of the commit, RFC 3339
)

// Info is what is known of a build.
type Info struct {
	Version string `json:"version"`          // the release, or the commit
	Commit  string `json:"commit,omitempty"` // "+changes" behind it: files were changed since
	Date    string `json:"date,omitempty"`   // of the commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Build is what is known of this build.
func Build() Info {
	i := Info{Version: String(), Commit: commit, Date: date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && i.Commit == "" {
		i.Commit, i.Date = ofCommit(info.Settings)
	}
	return i
}

// String is "millrace v1.2.3, commit 0123456789ab of 2026-11-23T08:00:00Z, go1.26.0 linux/amd64".
func (i Info) String() string {
	text := "millrace " + i.Version
	if i.Commit != "" {
		text += ", commit " + short(i.Commit)
		if i.Date != "" {
			text += " of " + i.Date
		}
	}
	return fmt.Sprintf("%s, %s %s/%s", text, i.Go, i.OS, i.Arch)
}

// Unknown is the version of a build that says neither its release nor its commit.
const Unknown = "unknown"

// String is the release, or the commit that was built, marked when files were changed since, or Unknown.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(released, short(commit), Unknown)
	}
	built, _ := ofCommit(info.Settings)
	return cmp.Or(released, short(commit), short(built), ofModule(info.Main.Version))
}

// changes marks a commit whose files were changed before they were built.
const changes = "+changes"

// ofCommit is the commit's name and its date, or nothing.
func ofCommit(settings []debug.BuildSetting) (name, date string) {
	changed := ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			name = s.Value
		case s.Key == "vcs.time":
			date = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = changes
		}
	}
	if name == "" {
		return "", ""
	}
	return name + changed, date
}

// short is the first 12 letters of a commit's name, with its mark.
func short(commit string) string {
	name, marked := strings.CutSuffix(commit, changes)
	name = name[:min(12, len(name))]
	if marked {
		name += changes
	}
	return name
}

// ofModule is the module's version, or "" for Go's placeholder.
func ofModule(version string) string {
	if version == "" || version == "(devel)" {
		return Unknown
	}
	return version
}
