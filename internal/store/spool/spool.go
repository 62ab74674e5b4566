// Package spool is a bounded queue of lines on disk: what waits there outlives the process. It knows nothing of what
// the lines say, and decides nothing about when they are read.
//
// A Spool has a folder of its own among those of the same parent, under a lock that ends with the process. What
// processes that are gone have left there is taken over by the next that is opened. Lines lie in segments, files that
// only grow, and are read in the order in which they were appended; a segment goes when it is read. How far one is read
// is known to the process alone: after a kill some lines are read again, of one segment at most.
//
// Start reading at Spool.
package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Bounds of a spool.
const (
	segmentBytes = 256 << 10 // beyond which the next lines begin another
	maxSpools    = 1000      // of processes on one machine that share a parent
)

// ErrFull is returned for lines beyond the bound.
var ErrFull = errors.New("the spool is full")

// Spool is a queue on disk. It is safe for concurrent use.
type Spool struct {
	dir  string
	max  int64
	lock *os.File

	mu       sync.Mutex
	segments []segment // oldest first
	tail     *os.File  // the last segment, open to append; nil: the next append begins one
	next     int       // number of the next segment
	read     int64     // how far the oldest is read
	unsynced bool
	closed   bool
}

// segment is a file of lines.
type segment struct {
	number int
	size   int64
}

// Open takes a folder below parent, and what is left in others, and bounds it to max bytes.
func Open(parent string, max int64) (*Spool, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Spool{max: max, next: 1}
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
	err := s.adopt(s.dir)
	if err == nil {
		err = s.takeOver(parent)
	}
	if err != nil {
		_ = s.lock.Close() // the fault above is told
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

// Dir is the spool's folder.
func (s *Spool) Dir() string { return s.dir }

// takeOver moves what processes that are gone have left behind our own.
func (s *Spool) takeOver(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if _, err := strconv.Atoi(e.Name()); err != nil || dir == s.dir || !e.IsDir() {
			continue
		}
		lock, err := tryLock(dir)
		if err != nil {
			return err
		}
		if lock == nil {
			continue // somebody's
		}
		if err = s.adopt(dir); err == nil {
			err = os.RemoveAll(dir)
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

// adopt takes the segments of a folder, its own or another one. A line that a crash cut off was never reported as kept.
func (s *Spool) adopt(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var numbers []int
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), ".ndjson")
		if n, err := strconv.Atoi(name); is && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if dir == s.dir {
			s.next = n
		}
		text, err := os.ReadFile(pathOf(dir, n))
		if err != nil {
			return err
		}
		if err := os.Rename(pathOf(dir, n), pathOf(s.dir, s.next)); err != nil {
			return err
		}
		s.segments = append(s.segments, segment{s.next, int64(bytes.LastIndexByte(text, '\n') + 1)})
		s.next++
	}
	return nil
}

// Append adds lines, none of which has a line end, or none of them. With sync they are on the disk when it returns.
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
	case s.waiting()+int64(b.Len()) > s.max:
		return ErrFull
	}
	if err := s.open(); err != nil {
		return err
	}
	last := &s.segments[len(s.segments)-1]
	if _, err := s.tail.WriteAt(b.Bytes(), last.size); err != nil {
		return errors.Join(err, s.tail.Truncate(last.size)) // so that nobody takes a half for a line after a restart
	}
	s.unsynced = true
	if sync {
		if err := s.sync(); err != nil {
			return err
		}
	}
	last.size += int64(b.Len())
	return nil
}

// open sees to it that there is a segment to append to.
func (s *Spool) open() error {
	if s.tail != nil && s.segments[len(s.segments)-1].size < segmentBytes {
		return nil
	}
	if s.tail != nil {
		if err := errors.Join(s.sync(), s.tail.Close()); err != nil {
			return err
		}
		s.tail = nil
	}
	f, err := os.OpenFile(pathOf(s.dir, s.next), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.tail = f
	s.segments = append(s.segments, segment{number: s.next})
	s.next++
	return nil
}

// Sync has what was appended on the disk.
func (s *Spool) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync()
}

func (s *Spool) sync() error {
	if s.tail == nil || !s.unsynced {
		return nil
	}
	if err := s.tail.Sync(); err != nil {
		return err
	}
	s.unsynced = false
	return nil
}

// Mark is where a reader has come to.
type Mark struct {
	segment int
	offset  int64
}

// Read answers the oldest lines that are not done, as many as are given at most, and the mark behind them.
func (s *Spool) Read(most int) (lines [][]byte, to Mark, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.waiting() == 0 {
		return nil, to, nil
	}
	for s.read >= s.segments[0].size { // empty, or torn
		if err := s.drop(); err != nil {
			return nil, to, err
		}
	}
	first := s.segments[0]
	f, err := os.Open(pathOf(s.dir, first.number))
	if err != nil {
		return nil, to, err
	}
	defer f.Close() // it is only read
	rest := make([]byte, first.size-s.read)
	if _, err := f.ReadAt(rest, s.read); err != nil {
		return nil, to, err
	}
	to = Mark{first.number, s.read}
	for line := range bytes.Lines(rest) {
		if len(lines) == most {
			break
		}
		to.offset += int64(len(line))
		lines = append(lines, line[:len(line)-1])
	}
	return lines, to, nil
}

// Done says that everything before a mark is dealt with.
func (s *Spool) Done(to Mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.segments) == 0 || s.segments[0].number != to.segment || to.offset < s.read {
		return nil
	}
	if s.read = to.offset; s.read < s.segments[0].size {
		return nil
	}
	return s.drop()
}

// drop removes the oldest segment, or empties it while lines are appended to it.
func (s *Spool) drop() error {
	if len(s.segments) == 1 && s.tail != nil {
		if err := s.tail.Truncate(0); err != nil {
			return err
		}
		s.segments[0].size, s.read = 0, 0
		return nil
	}
	if err := os.Remove(pathOf(s.dir, s.segments[0].number)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.segments, s.read = s.segments[1:], 0
	return nil
}

// Waiting is how many bytes are not done.
func (s *Spool) Waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting()
}

func (s *Spool) waiting() int64 {
	total := -s.read
	for _, g := range s.segments {
		total += g.size
	}
	return max(0, total)
}

// Close gives the folder up; what waits is for the next process, and without any the folder goes. Closing again does
// nothing.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.tail != nil {
		err = errors.Join(s.sync(), s.tail.Close())
	}
	switch {
	case err != nil:
	case s.waiting() == 0:
		err = os.RemoveAll(s.dir)
		_ = os.Remove(filepath.Dir(s.dir)) // others may be in it by now
	default:
		err = s.cutRead()
	}
	return errors.Join(err, s.lock.Close())
}

// cutRead leaves of the first segment what is not read.
func (s *Spool) cutRead() error {
	if s.read == 0 {
		return nil
	}
	name, rest := pathOf(s.dir, s.segments[0].number), filepath.Join(s.dir, "rest")
	whole, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := os.Create(rest)
	if err != nil {
		return err
	}
	_, err = f.Write(whole[s.read:s.segments[0].size])
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(rest, name)
}

func pathOf(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.ndjson", number))
}
