// Package spool is a bounded queue of lines on disk, which outlives the process. It does not interpret the lines, nor
// decide when they are read.
//
// A Spool has a folder of its own below a common parent, under a lock that ends with the process. The next Spool that
// is opened takes over the lines of dead processes. Lines lie in one file and are read in the order in which they were
// appended; lines that were read are cut off now and then. Only the process knows how far it has read: after a kill
// some lines are read again.
//
// Start reading at Spool.
package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Bounds of a spool.
const (
	cutFrom   = 1 << 20 // bytes that are read, before they are cut off
	maxSpools = 1000    // of processes on one machine that share a parent
)

// linesFile has the lines of a spool.
const linesFile = "lines.ndjson"

// ErrFull is returned for lines beyond the bound.
var ErrFull = errors.New("the spool is full")

// Spool is a queue on disk. It is safe for concurrent use; lines are read by one goroutine at a time.
type Spool struct {
	dir  string
	max  int64
	lock *os.File

	mu         sync.Mutex
	file       *os.File
	size, read int64 // Invariant: 0 <= read <= size
	unsynced   bool
	closed     bool
}

// Open creates a folder below parent, takes over the lines of dead processes, and bounds it to max bytes.
func Open(parent string, max int64) (*Spool, error) {
	s := &Spool{max: max}
	for n := 1; s.lock == nil; n++ {
		if n > maxSpools {
			return nil, fmt.Errorf("spool: %s has %d folders that are in use", parent, maxSpools)
		}
		s.dir = filepath.Join(parent, strconv.Itoa(n))
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		var err error
		if s.lock, err = tryLock(s.dir); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	if err := s.load(parent); err != nil {
		_ = s.lock.Close() // the error above is returned
		return nil, fmt.Errorf("spool %s: %w", s.dir, err)
	}
	return s, nil
}

// tryLock takes the lock of a folder, which ends with the process; nil: another process has it, or has just removed it.
func tryLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		ours, mine := f.Stat()
		now, there := os.Stat(path)
		if mine == nil && there == nil && os.SameFile(ours, now) {
			return f, nil
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// load opens what the folder has, and takes over what processes that are gone have left in others.
func (s *Spool) load(parent string) (err error) {
	if err := s.open(); err != nil {
		return err
	}
	if s.size, err = wholeLines(s.file); err != nil {
		return err
	}
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if _, err := strconv.Atoi(e.Name()); err != nil || dir == s.dir || !e.IsDir() {
			continue
		}
		if err := s.takeOver(dir); err != nil {
			return err
		}
	}
	if s.size > 0 {
		return nil
	}
	err, s.file = s.file.Close(), nil
	return err
}

// open creates the file if need be. It is not created before the first line, so that a folder removed by then is
// noticed.
func (s *Spool) open() (err error) {
	if s.file == nil {
		s.file, err = os.OpenFile(filepath.Join(s.dir, linesFile), os.O_CREATE|os.O_RDWR, 0o600)
	}
	return err
}

// takeOver appends the lines of another folder to our own, unless a process holds it.
func (s *Spool) takeOver(dir string) error {
	lock, err := tryLock(dir)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close() // the folder is gone by then, or taken over again
	left, err := os.Open(filepath.Join(dir, linesFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.RemoveAll(dir)
	case err != nil:
		return err
	}
	defer left.Close() // it is only read
	size, err := wholeLines(left)
	if err != nil {
		return err
	}
	if _, err = io.Copy(io.NewOffsetWriter(s.file, s.size), io.NewSectionReader(left, 0, size)); err != nil {
		return err
	}
	s.size += size
	return errors.Join(s.file.Sync(), os.RemoveAll(dir))
}

// wholeLines is the length of the file's complete lines. A line cut off by a crash was never reported as kept.
func wholeLines(f *os.File) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	for piece := make([]byte, 64<<10); end > 0; {
		n := min(end, int64(len(piece)))
		if _, err := f.ReadAt(piece[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(piece[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// Dir is the spool's folder.
func (s *Spool) Dir() string { return s.dir }

// Append adds all of the lines, or none. They contain no line ends. With sync they are on the disk when it returns.
func (s *Spool) Append(lines [][]byte, sync bool) error {
	var b bytes.Buffer
	for _, line := range lines {
		b.Write(line)
		b.WriteByte('\n')
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return os.ErrClosed
	case s.size-s.read+int64(b.Len()) > s.max:
		return ErrFull
	}
	if err := s.open(); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(b.Bytes(), s.size); err != nil {
		return errors.Join(err, s.file.Truncate(s.size)) // no half line after a restart
	}
	s.unsynced = true
	if sync {
		if err := s.sync(); err != nil {
			return err
		}
	}
	s.size += int64(b.Len())
	return nil
}

// Sync has what was appended on the disk.
func (s *Spool) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync()
}

func (s *Spool) sync() error {
	if !s.unsynced || s.closed {
		return nil
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.unsynced = false
	return nil
}

// Mark is where a reader has come to.
type Mark int64

// Read answers the oldest lines that are not done, as many as are given at most, and the mark behind them.
func (s *Spool) Read(most int) (lines [][]byte, to Mark, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to = Mark(s.read)
	if s.closed || s.read == s.size {
		return nil, to, nil
	}
	from := bufio.NewReader(io.NewSectionReader(s.file, s.read, s.size-s.read))
	for len(lines) < most {
		line, err := from.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, to, err
		}
		to += Mark(len(line))
		lines = append(lines, line[:len(line)-1])
	}
	return lines, to, nil
}

// Done says that everything before a mark is dealt with. The marks before it are void.
func (s *Spool) Done(to Mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.file == nil {
		return nil
	}
	s.read = max(s.read, int64(to))
	switch {
	case s.read == s.size:
		if err := s.file.Truncate(0); err != nil {
			return err
		}
		s.size, s.read = 0, 0
	case s.read >= cutFrom && s.read >= s.size/2:
		return s.cutRead()
	}
	return nil
}

// Waiting is how many bytes are not done.
func (s *Spool) Waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.read
}

// Close gives the folder up; what waits is for the next process, and without any the folder goes. Closing again does
// nothing.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	err := s.sync()
	switch {
	case err != nil:
	case s.read == s.size:
		err = os.RemoveAll(s.dir)
		_ = os.Remove(filepath.Dir(s.dir)) // others may be in it by now
	case s.read > 0:
		err = s.cutRead()
	}
	s.closed = true
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return errors.Join(err, s.lock.Close())
}

// cutRead leaves what is not read.
func (s *Spool) cutRead() error {
	name := filepath.Join(s.dir, "rest")
	rest, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(rest, io.NewSectionReader(s.file, s.read, s.size-s.read))
	if err = errors.Join(err, rest.Sync()); err == nil {
		err = os.Rename(name, filepath.Join(s.dir, linesFile))
	}
	if err != nil {
		return errors.Join(err, rest.Close())
	}
	_ = s.file.Close() // what it had is in the other
	s.file, s.size, s.read = rest, s.size-s.read, 0
	return nil
}
