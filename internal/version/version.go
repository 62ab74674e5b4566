// Package version names the build of this program.
package version

import (
	"cmp"
	"runtime/debug"
)

// released is the version of a release, set when one is built: -ldflags "-X .../internal/version.released=v1.2.3".
var released string

// String is the release, or the commit that was built, marked when files were changed since; "unknown" where the
// build says neither.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(released, "unknown")
	}
	return cmp.Or(released, ofCommit(info.Settings), ofModule(info.Main.Version))
}

// ofCommit is the first 12 letters of the commit's name, or nothing.
func ofCommit(settings []debug.BuildSetting) string {
	commit, changed := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed
}

// ofModule is the module's version; what Go says where it knows none helps nobody.
func ofModule(version string) string {
	if version == "" || version == "(devel)" {
		return "unknown"
	}
	return version
}
