package process

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// order is an engine's order, from the request on. Only the provider writes it.
type order struct {
	ID    rollout.EngineID `json:"id"`
	Since time.Time        `json:"since"`
	// Nonce is in the environment of the order's processes, and of no others: an id may be used again.
	Nonce string `json:"nonce"`
	// Place is nil as long as there was none.
	Place *place `json:"place,omitempty"`

	dir string // its folder
	bad error  // it cannot be read
}

// place is where and how the engine is to run.
type place struct {
	Attempt  string        `json:"attempt"` // a keeper that was started for another one comes late
	Port     int           `json:"port"`
	GPUs     string        `json:"gpus,omitempty"`
	URL      string        `json:"url"`
	Command  []string      `json:"command"`
	Env      []string      `json:"env,omitempty"`
	Dir      string        `json:"dir"`
	Grace    time.Duration `json:"grace"`
	LogBytes int64         `json:"log_bytes"`
	Lifeline string        `json:"lifeline,omitempty"`
}

// record is the outcome of the order. The keeper writes it, or, once there is no keeper, the provider.
type record struct {
	StartedAt time.Time `json:"started_at,omitzero"` // just before the engine was: it is started once at most
	Engine    process   `json:"engine,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Reason    string    `json:"reason,omitempty"`
}

// The files of an order's folder. All are created in full size before the engine is started, so that a disk that is
// full later changes nothing.
const (
	orderFile    = "order.json"
	recordFile   = "record.json"
	stoppingFile = "stopping" // "1" once the engine is told to end
	keeperLock   = "lock"
	logFile      = "log"
	keeperLog    = "keeper.log"
)

const recordSize = 8 << 10

func (o *order) file(name string) string { return filepath.Join(o.dir, name) }

// createOrder makes an order's folder, whole or not at all.
func createOrder(dir string, id rollout.EngineID, now time.Time) (*order, error) {
	o := &order{ID: id, Since: now.UTC(), Nonce: rand.Text()}
	o.dir = filepath.Join(dir, unfinished+o.Nonce)
	err := func() error {
		if err := os.Mkdir(o.dir, 0o700); err != nil {
			return err
		}
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		for name, content := range map[string][]byte{
			orderFile: text, recordFile: padded(nil), stoppingFile: []byte("0"), keeperLock: []byte(o.Nonce), logFile: nil,
			keeperLog: nil,
		} {
			if err := os.WriteFile(o.file(name), content, 0o600); err != nil {
				return err
			}
		}
		return os.Rename(o.dir, filepath.Join(dir, string(id)))
	}()
	if err != nil {
		_ = os.RemoveAll(o.dir)
		return nil, fmt.Errorf("write the order of engine %s: %w", id, err)
	}
	o.dir = filepath.Join(dir, string(id))
	return o, nil
}

// unfinished begins the names of folders whose order was not written to its end.
const unfinished = ".new-"

func readOrder(dir string) *order {
	o := &order{dir: dir}
	text, err := os.ReadFile(o.file(orderFile))
	if err == nil {
		err = json.Unmarshal(text, o)
	}
	if err == nil && string(o.ID) != filepath.Base(dir) {
		err = fmt.Errorf("it is of engine %q", o.ID)
	}
	if err != nil {
		o = &order{ID: rollout.EngineID(filepath.Base(dir)), dir: dir, bad: err}
		o.Nonce = o.nonceOfLock()
		if info, err := os.Stat(dir); err == nil {
			o.Since = info.ModTime().UTC()
		}
	}
	return o
}

// nonceOfLock is the order's nonce as written in the keeper's lock: it finds the processes of an order that cannot be
// read.
func (o *order) nonceOfLock() string {
	text, err := os.ReadFile(o.file(keeperLock))
	if err != nil {
		return ""
	}
	return string(text)
}

// write replaces the order's file.
func (o *order) write() error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	next := o.file(orderFile + ".new")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, o.file(orderFile))
}

// readOrders reads every order below a deployment's folder.
func readOrders(dir string) ([]*order, error) {
	entries, err := os.ReadDir(dir) // by name
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var orders []*order
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, unfinished):
			_ = os.RemoveAll(filepath.Join(dir, name)) // its writer died before it was an order
		case e.IsDir() && !strings.HasPrefix(name, "."):
			orders = append(orders, readOrder(filepath.Join(dir, name)))
		}
	}
	return orders, nil
}

// readRecord is what became of the order so far.
func (o *order) readRecord() (record, error) {
	var r record
	text, err := os.ReadFile(o.file(recordFile))
	if err != nil {
		return r, err
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return r, nil
	}
	return r, json.Unmarshal(text, &r)
}

// writeRecord writes in place, where there is room whatever the disk.
func (o *order) writeRecord(r record) error {
	text, err := json.Marshal(r)
	for err == nil && len(text) > recordSize {
		r.Reason = r.Reason[:len(r.Reason)/2]
		text, err = json.Marshal(r)
	}
	if err != nil {
		return err
	}
	return overwrite(o.file(recordFile), padded(text))
}

func padded(text []byte) []byte {
	return append(text, bytes.Repeat([]byte(" "), recordSize-len(text))...)
}

func overwrite(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Close())
}

// stopping reports whether the engine was told to end.
func (o *order) stopping() bool {
	text, err := os.ReadFile(o.file(stoppingFile))
	return err == nil && string(text) == "1"
}

func (o *order) setStopping() error { return overwrite(o.file(stoppingFile), []byte("1")) }
