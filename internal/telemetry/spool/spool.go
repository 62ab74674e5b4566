// Package spool is a bounded queue of lines on disk: what waits there outlives the process. It knows nothing of what
// the lines say, and decides nothing about when they are read.
//
// A Spool has a folder of its own among those of the same parent, under a lock that ends with the process. What
// processes that are gone have left there is taken over by the next that is opened. Lines lie in segments, files that
// only grow, and are read in the order in which they were appended; a segment goes when it is read.
//
// Start reading at Spool.
package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Bounds of a spool.
const (
	segmentBytes = 4 << 20
	// tidyBytes is how large a segment may become that is read to its end, before it goes.
	tidyBytes = 256 << 10
	maxSpools = 1000 // of processes on one machine that share a parent
)

// ErrFull is returned for lines beyond the bound.
var ErrFull = errors.New("the spool is full")

// Spool is a queue on disk. One goroutine may append while another reads.
type Spool struct {
	dir  string
	max  int64
	lock *os.File

	appending sync.Mutex // held while a segment is written
	tail      *os.File   // the last segment; nil: the next append begins one

	closed atomic.Bool

	mu       sync.Mutex
	segments []segment // oldest first
	next     int       // number of the next segment
	read     int64     // how far the oldest is read
	unsynced bool
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
		if s.lock, err = tryLock(filepath.Join(s.dir, "lock")); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	err := s.resume()
	if err == nil {
		err = s.takeOver(parent)
	}
	if err != nil {
		_ = s.lock.Close() // the fault above is told
		return nil, fmt.Errorf("spool %s: %w", s.dir, err)
	}
	return s, nil
}

// Dir is the spool's folder.
func (s *Spool) Dir() string { return s.dir }

// resume finds what was left in the folder.
func (s *Spool) resume() error {
	numbers, err := segmentsIn(s.dir)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		size, err := wholeLines(s.path(n))
		if err != nil {
			return err
		}
		s.segments = append(s.segments, segment{n, size})
		s.next = n + 1
	}
	number, offset := s.readMark()
	s.next = max(s.next, number+1) // those before the mark count as read
	for len(s.segments) > 0 && s.segments[0].number < number {
		if err := s.drop(); err != nil {
			return err
		}
	}
	if len(s.segments) > 0 && s.segments[0].number == number {
		s.read = min(offset, s.segments[0].size)
	}
	return nil
}

// takeOver moves the segments of processes that are gone behind our own.
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
		lock, err := tryLock(filepath.Join(dir, "lock"))
		if err != nil {
			return err
		}
		if lock == nil {
			continue // somebody's
		}
		err = s.adopt(dir)
		if err = errors.Join(err, lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

// adopt takes what is left in a folder. Where the first segment is read in part, the rest of it is taken, so that
// nothing is read twice.
func (s *Spool) adopt(dir string) error {
	other := &Spool{dir: dir}
	if err := other.resume(); err != nil {
		return err
	}
	for i, g := range other.segments {
		if i == 0 && other.read > 0 {
			if err := other.cutRead(); err != nil {
				return err
			}
			g.size -= other.read
		}
		if err := os.Rename(other.path(g.number), s.path(s.next)); err != nil {
			return err
		}
		s.segments = append(s.segments, segment{s.next, g.size})
		s.next++
	}
	return errors.Join(removeIfThere(filepath.Join(dir, "read")), removeIfThere(filepath.Join(dir, "lock")),
		os.Remove(dir))
}

// cutRead leaves of the first segment what is not read. The mark, which says how far that is, goes in the moment before
// the shorter file takes the name of the longer: a process that is killed in between has lines read again, and loses
// none.
func (s *Spool) cutRead() error {
	name := s.path(s.segments[0].number)
	whole, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	rest := filepath.Join(s.dir, "rest")
	f, err := os.Create(rest)
	if err != nil {
		return err
	}
	_, err = f.Write(whole[s.read:s.segments[0].size])
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := removeIfThere(filepath.Join(s.dir, "read")); err != nil {
		return err
	}
	return os.Rename(rest, name)
}

// Append adds lines, none of which has a line end, or none of them. With sync they are on the disk when it returns.
func (s *Spool) Append(lines [][]byte, sync bool) error {
	var b bytes.Buffer
	for _, line := range lines {
		b.Write(line)
		b.WriteByte('\n')
	}
	s.appending.Lock()
	defer s.appending.Unlock()
	if s.closed.Load() {
		return os.ErrClosed
	}
	if s.Waiting()+int64(b.Len()) > s.max {
		return ErrFull
	}
	at, err := s.open()
	if err != nil {
		return err
	}
	if _, err := s.tail.WriteAt(b.Bytes(), at); err != nil {
		return errors.Join(err, s.tail.Truncate(at)) // so that nobody takes a half for a line after a restart
	}
	if sync {
		if err := s.tail.Sync(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[len(s.segments)-1].size = at + int64(b.Len())
	s.unsynced = s.unsynced && !sync || !sync
	return nil
}

// open sees to it that there is a segment to append to, and answers its size.
func (s *Spool) open() (size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tail != nil && s.segments[len(s.segments)-1].size < segmentBytes {
		return s.segments[len(s.segments)-1].size, nil
	}
	if s.tail != nil {
		if err := s.tail.Close(); err != nil {
			return 0, err
		}
		s.tail = nil
	}
	f, err := os.OpenFile(s.path(s.next), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	s.tail = f
	s.segments = append(s.segments, segment{number: s.next})
	s.next++
	return 0, nil
}

// Sync has what was appended on the disk.
func (s *Spool) Sync() error {
	s.appending.Lock()
	defer s.appending.Unlock()
	if s.tail == nil || !s.unsynced {
		return nil
	}
	if err := s.tail.Sync(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if s.closed.Load() {
		s.mu.Unlock()
		return nil, to, nil
	}
	for len(s.segments) > 1 && s.read >= s.segments[0].size { // read to its end while it was the last
		if err := s.drop(); err != nil {
			s.mu.Unlock()
			return nil, to, err
		}
	}
	if len(s.segments) == 0 {
		s.mu.Unlock()
		return nil, to, nil
	}
	first, from := s.segments[0], s.read
	s.mu.Unlock()
	to = Mark{first.number, from}
	if from >= first.size {
		return nil, to, nil
	}
	f, err := os.Open(s.path(first.number))
	if err != nil {
		return nil, to, err
	}
	defer f.Close() // it is only read
	portion := make([]byte, min(first.size-from, 1<<20))
	for {
		n, err := f.ReadAt(portion, from)
		if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
			return nil, to, err
		}
		end := bytes.LastIndexByte(portion[:n], '\n')
		if end >= 0 {
			portion = portion[:end+1]
			break
		}
		if int64(n) == first.size-from {
			return nil, Mark{first.number, first.size}, nil // no line: torn
		}
		portion = make([]byte, min(first.size-from, 2*int64(len(portion)))) // a line longer than the portion
	}
	for line := range bytes.Lines(portion) {
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
	if len(s.segments) == 0 || s.segments[0].number != to.segment || to.offset < s.read {
		return nil
	}
	s.read = to.offset
	first := s.segments[0]
	if last := len(s.segments) == 1; s.read < first.size || last && !s.tidy() {
		return s.writeMark(to)
	}
	return s.drop()
}

// tidy reports whether the last segment, which is read to its end, can go: nobody is about to append to it, and it is
// worth the while.
func (s *Spool) tidy() bool {
	if s.segments[0].size < tidyBytes || !s.appending.TryLock() {
		return s.tail == nil
	}
	defer s.appending.Unlock()
	if s.tail != nil {
		_ = s.tail.Close() // all of it is read
		s.tail = nil
	}
	return true
}

// drop removes the oldest segment.
func (s *Spool) drop() error {
	if err := removeIfThere(s.path(s.segments[0].number)); err != nil {
		return err
	}
	s.segments, s.read = s.segments[1:], 0
	return nil
}

// Waiting is how many bytes are not done.
func (s *Spool) Waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := -s.read
	for _, g := range s.segments {
		total += g.size
	}
	return max(0, total)
}

// Close gives the folder up; what waits is for the next process, and without any the folder goes. Closing again does
// nothing.
func (s *Spool) Close() error {
	s.appending.Lock()
	defer s.appending.Unlock()
	if s.closed.Swap(true) {
		return nil
	}
	var err error
	if s.tail != nil {
		err = errors.Join(s.tail.Sync(), s.tail.Close())
		s.tail = nil
	}
	if err == nil && s.Waiting() == 0 {
		err = s.remove()
	}
	return errors.Join(err, s.lock.Close())
}

// remove removes the folder of a spool in which nothing waits.
func (s *Spool) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.segments) > 0 {
		if err := s.drop(); err != nil {
			return err
		}
	}
	err := errors.Join(removeIfThere(filepath.Join(s.dir, "read")), removeIfThere(filepath.Join(s.dir, "lock")))
	for _, dir := range []string{s.dir, filepath.Dir(s.dir)} {
		_ = os.Remove(dir) // others may be in it by now
	}
	return err
}

func (s *Spool) path(number int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%08d.ndjson", number))
}

// writeMark notes how far the spool is read. It is written in one piece, and not waited for: after a power cut some
// lines are read again.
func (s *Spool) writeMark(m Mark) error {
	f, err := os.OpenFile(filepath.Join(s.dir, "read"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%08d %012d\n", m.segment, m.offset), 0)
	return errors.Join(err, f.Close())
}

// readMark is what writeMark noted; zero where there is nothing that can be read.
func (s *Spool) readMark() (number int, offset int64) {
	text, err := os.ReadFile(filepath.Join(s.dir, "read"))
	if err != nil {
		return 0, 0
	}
	if _, err := fmt.Sscanf(string(text), "%d %d", &number, &offset); err != nil {
		return 0, 0
	}
	return number, offset
}

func segmentsIn(dir string) (numbers []int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), ".ndjson")
		if n, err := strconv.Atoi(name); is && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// wholeLines is the size of a file up to its last line end. A line that a crash cut off was never reported as kept.
func wholeLines(path string) (size int64, err error) {
	text, err := os.ReadFile(path)
	return int64(bytes.LastIndexByte(text, '\n') + 1), err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
