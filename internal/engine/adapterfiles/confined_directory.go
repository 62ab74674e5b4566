package adapterfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/millrace/millrace/internal/rollout"
)

// confinedDir is a directory, the prefix of a run's adapters, that is read without ever looking at anything outside of
// it: symbolic links are followed by hand, and only as long as they stay inside.
type confinedDir struct {
	prefix string // as the spec writes it
	real   string // what that is here, links resolved
	root   *os.Root
}

// openConfined opens a prefix, which only the run's spec can name.
func openConfined(prefix string) (*confinedDir, error) {
	real, err := filepath.EvalSymlinks(prefix)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	return &confinedDir{prefix: filepath.Clean(prefix), real: real, root: root}, nil
}

func (d *confinedDir) close() { _ = d.root.Close() } // it is only read

// errOutside does not depend on what lies outside, so that it reveals nothing about it.
var errOutside = errors.New("a symbolic link leads out of adapters.path_prefix; copy the files to below it")

// maxLinks is how many symbolic links a path may have, as in Linux.
const maxLinks = 40

// resolve follows the symbolic links of a path below the prefix and returns the path without them.
func (d *confinedDir) resolve(rel string) (string, error) {
	todo := strings.Split(filepath.ToSlash(rel), "/")
	var done []string
	for links := 0; len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", errOutside
			}
			done = done[:len(done)-1]
			continue
		}
		at := filepath.Join(append(append([]string{}, done...), next)...)
		info, err := d.root.Lstat(at)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = append(done, next)
			continue
		}
		if links++; links > maxLinks {
			return "", errCircle
		}
		target, err := d.root.Readlink(at)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			if target, err = d.inside(target); err != nil {
				return "", err
			}
			done = nil
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	return filepath.Join(append([]string{"."}, done...)...), nil
}

// inside makes an absolute path one that is relative to the prefix.
func (d *confinedDir) inside(target string) (string, error) {
	for _, prefix := range []string{d.prefix, d.real} {
		if rest, ok := strings.CutPrefix(target, strings.TrimSuffix(prefix, "/")); ok && (rest == "" || rest[0] == '/') {
			return rest, nil
		}
	}
	return "", errOutside
}

// open opens a regular file below the prefix. Anything else that has a name there is refused unopened, so that no FIFO
// and no device is ever waited for.
func (d *confinedDir) open(rel string) (*os.File, fs.FileInfo, error) {
	at, err := d.resolve(rel)
	if err != nil {
		return nil, nil, d.classify(rel, err)
	}
	info, err := d.root.Lstat(at)
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return nil, nil, d.classify(rel, err)
	}
	f, err := d.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not blocked, if it was changed for a FIFO meanwhile
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = d.classify(rel, errNotRegular)
	}
	if err != nil {
		_ = f.Close() // it is only read
		return nil, nil, err
	}
	return f, info, nil
}

// More faults of an adapter.
var (
	errNotRegular = errors.New("it is not a regular file; engines are given files only, no pipes, devices or folders")
	errCircle     = errors.New("too many symbolic links")
)

// classify makes the faults of an adapter permanent; errors of the file system may pass.
func (d *confinedDir) classify(rel string, err error) error {
	for _, fault := range []error{errOutside, errNotRegular, errCircle, syscall.ENOTDIR, syscall.ENAMETOOLONG} {
		if errors.Is(err, fault) {
			return rollout.Fail(rollout.Permanent, rollout.CodeBadAdapter, fmt.Errorf("%s: %w", filepath.Join(d.prefix, rel),
				fault))
		}
	}
	return err
}
