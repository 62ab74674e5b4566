package adapterfiles

import (
	"io/fs"
	"syscall"
	"time"
)

// statusChanged is when a file was changed last, which who restores its time of modification cannot hide.
func statusChanged(f fs.FileInfo) time.Time {
	return time.Unix(f.Sys().(*syscall.Stat_t).Ctimespec.Unix())
}
