package crashtest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// keepTemporalUnavailable kills Temporal, which starts again, and cuts everybody off from it, so that it is unavailable
// until the links are restored.
func (in *injector) keepTemporalUnavailable() (back func(), err error) {
	if err := in.signal("temporal", syscall.SIGKILL); err != nil {
		return nil, err
	}
	for _, k := range in.service.toTemporal() {
		k.sever()
	}
	in.watch.setTemporalUnavailable(true)
	return func() {
		in.watch.setTemporalUnavailable(false)
		for _, k := range in.service.toTemporal() {
			k.restore()
		}
	}, nil
}

// bringTemporalBackOlder copies Temporal's database now, and puts it back later, as one restores a backup. Temporal is
// stopped while its files are touched.
func (in *injector) bringTemporalBackOlder() (back func(), err error) {
	dir := in.service.cfg.Dir
	copies := filepath.Join(dir, "temporal-backup")
	if err := errors.Join(os.RemoveAll(copies), os.Mkdir(copies, 0o755)); err != nil {
		return nil, err
	}
	if err := in.signal("temporal", syscall.SIGSTOP); err != nil {
		return nil, err
	}
	err = eachFile(filepath.Join(dir, "temporal.db*"), copies, func(from, to string) error {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err = errors.Join(err, in.signal("temporal", syscall.SIGCONT)); err != nil {
		return nil, err
	}
	return func() {
		err := in.signal("temporal", syscall.SIGSTOP)
		if err == nil {
			err = eachFile(filepath.Join(dir, "temporal.db*"), dir, func(from, _ string) error { return os.Remove(from) })
		}
		if err == nil {
			err = eachFile(filepath.Join(copies, "*"), dir, os.Rename)
		}
		if err = errors.Join(err, in.signal("temporal", syscall.SIGKILL)); err != nil {
			in.complain("bring Temporal back older: %v", err)
		}
	}, nil
}

// eachFile does something with each file of a pattern and its name in a folder.
func eachFile(pattern, folder string, do func(from, to string) error) error {
	files, err := filepath.Glob(pattern)
	for _, file := range files {
		err = errors.Join(err, do(file, filepath.Join(folder, filepath.Base(file))))
	}
	return err
}
