// Package archive writes a run's archive, one file that any tar can open, and checks one. What is in it comes from
// the caller.
//
// An archive is a gzipped tar of JSON and of lines of JSON. Its last member, manifest.json, names every other one
// with its size and SHA-256, so that a file that was cut short has none. The file has its name only once it is
// whole, on the disk and read again. Start reading at Writer.
package archive

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Format is the version of the layout. A reader of another one must not guess.
const Format = 1

// ManifestName is the last member of every archive.
const ManifestName = "manifest.json"

// Manifest says what an archive holds.
type Manifest struct {
	Format     int             `json:"format"`
	Run        string          `json:"run"`
	ID         string          `json:"id"` // what the service called the run
	ArchivedAt time.Time       `json:"archived_at"`
	Status     json.RawMessage `json:"status"` // the run's last one, with its spec, as the API shows it
	Counts     Counts          `json:"counts"`
	Members    []Member        `json:"members"` // in the order of the archive
}

// Counts is how many things of each kind an archive holds.
type Counts struct {
	Steps   int `json:"steps"`
	Events  int `json:"events"`
	Batches int `json:"batches"`
}

// Member is one file of an archive.
type Member struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hex
}

// Writer writes an archive beside the place that it will have. It holds a few buffers, whatever the members' size:
// each is gathered in a file first, because tar has to know its size. Close it, whatever happens.
type Writer struct {
	path    string
	file    *os.File
	zip     *gzip.Writer
	tar     *tar.Writer
	members []Member
}

// Create begins an archive at a path where nothing is yet.
func Create(path string) (*Writer, error) {
	if err := Free(path); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("create archive: %w", err)
	}
	w := &Writer{path: path, file: file, zip: gzip.NewWriter(file)}
	w.tar = tar.NewWriter(w.zip)
	return w, nil
}

// Free refuses a path where something is already.
func Free(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return fmt.Errorf("%s is there already and is not overwritten; name another file, or move it away: %w",
			path, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("create archive: %w", err)
	}
	return nil
}

// Add adds a member of what fill writes.
func (w *Writer) Add(name string, fill func(io.Writer) error) (err error) {
	gathered, err := os.CreateTemp(filepath.Dir(w.path), "."+filepath.Base(w.path)+".*.part")
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, gathered.Close(), os.Remove(gathered.Name())) }()
	sum := sha256.New()
	if err := fill(io.MultiWriter(gathered, sum)); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	size, err := gathered.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	if _, err := gathered.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	if err := w.put(name, size, gathered); err != nil {
		return err
	}
	w.members = append(w.members, Member{name, size, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

func (w *Writer) put(name string, size int64, from io.Reader) error {
	if err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	if _, err := io.Copy(w.tar, from); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

// Finish adds the manifest, brings the file to the disk, reads it again and gives it its name. It returns the
// file's size.
func (w *Writer) Finish(m Manifest) (int64, error) {
	m.Format, m.Members = Format, w.members
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return 0, fmt.Errorf("archive %s: %w", ManifestName, err)
	}
	text = append(text, '\n')
	if err := w.Add(ManifestName, func(to io.Writer) error { _, err := to.Write(text); return err }); err != nil {
		return 0, err
	}
	if err := errors.Join(w.tar.Close(), w.zip.Close(), w.file.Sync()); err != nil {
		return 0, fmt.Errorf("write archive: %w", err)
	}
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("read the archive again: %w", err)
	}
	if _, err := Check(w.file); err != nil {
		return 0, fmt.Errorf("read the archive again: %w", err)
	}
	info, err := w.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the archive again: %w", err)
	}
	if err := Free(w.path); err != nil { // another process may have created it
		return 0, err
	}
	if err := os.Rename(w.file.Name(), w.path); err != nil {
		return 0, fmt.Errorf("name the archive: %w", err)
	}
	return info.Size(), syncFolder(filepath.Dir(w.path))
}

// syncFolder brings a file's name to the disk.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("name the archive: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("name the archive: %w", err)
	}
	return nil
}

// Close removes what is not finished.
func (w *Writer) Close() error {
	err := w.file.Close()
	if removed := os.Remove(w.file.Name()); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// ErrBroken is returned for a file that is no whole archive.
var ErrBroken = errors.New("not a whole archive")

// Check reads an archive to its end and compares every member with the manifest.
func Check(from io.Reader) (Manifest, error) {
	var m Manifest
	zip, err := gzip.NewReader(from)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	var found []Member
	for members := tar.NewReader(zip); ; {
		head, err := members.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return m, fmt.Errorf("%w: %w", ErrBroken, err)
		}
		if head.Name == ManifestName {
			if err := json.NewDecoder(members).Decode(&m); err != nil {
				return m, fmt.Errorf("%w: %s: %w", ErrBroken, ManifestName, err)
			}
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, members); err != nil {
			return m, fmt.Errorf("%w: %s: %w", ErrBroken, head.Name, err)
		}
		found = append(found, memberOf(head, sum))
	}
	if _, err := io.Copy(io.Discard, zip); err != nil { // to the checksum at its end
		return m, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	switch {
	case m.Format == 0:
		return m, fmt.Errorf("%w: it has no %s", ErrBroken, ManifestName)
	case m.Format != Format:
		return m, fmt.Errorf("it has format %d; this program reads format %d", m.Format, Format)
	case !slices.Equal(m.Members, found):
		return m, fmt.Errorf("%w: its members are not those of its %s", ErrBroken, ManifestName)
	}
	return m, nil
}

func memberOf(head *tar.Header, sum hash.Hash) Member {
	return Member{head.Name, head.Size, hex.EncodeToString(sum.Sum(nil))}
}
