// Package pack is the compact binary form of groups, episodes and checkpoints. Redis keeps them so, trainers that ask
// for it are sent them so; the package knows neither Redis nor HTTP.
//
// A record is three header bytes (magic, format, kind) and one zstd frame. Inside the frame, the columns of
// a record are kept apart, because like compresses with like: first the structure, then prompt tokens,
// completion tokens and log-probabilities, and where the time of each turn went. Packing loses nothing but
// what JSON would lose too, and what of a turn's timing is below a millisecond: times are read back in UTC, and empty
// slices are read back empty, never nil. Reading survives any bytes: it returns ErrCorrupt, and its memory is bounded
// by MaxSize. Start reading at Group, then group_episode_trajectory_codec.go.
package pack

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace/millrace/internal/rollout"
)

const magic = 0xB7

// format is the version of the layout. A reader refuses others.
const format = 2

// kind says what a record holds.
type kind byte

const (
	kindGroup      kind = 1
	kindEpisode    kind = 2
	kindCheckpoint kind = 3
	kindBytes      kind = 4
)

// MaxSize bounds a record before compression, and maxPromptIDs what shared prompt prefixes may unfold to; larger
// records are neither written nor read.
const (
	MaxSize      = 256 << 20
	maxPromptIDs = MaxSize / 4
)

// ErrCorrupt is returned for bytes that no writer of this package has written.
var ErrCorrupt = errors.New("corrupt record")

// ErrTooLarge is returned for a record over MaxSize.
var ErrTooLarge = errors.New("record too large")

// Group packs g.
func Group(g *rollout.Group) ([]byte, error) {
	var w writer
	w.group(g)
	return w.seal(kindGroup)
}

// ReadGroup reads what Group has written.
func ReadGroup(b []byte) (*rollout.Group, error) {
	r, err := open(b, kindGroup)
	if err != nil {
		return nil, fmt.Errorf("read group: %w", err)
	}
	g := r.group()
	if err := r.close(); err != nil {
		return nil, fmt.Errorf("read group: %w", err)
	}
	return g, nil
}

// Episode packs a finished episode.
func Episode(e *rollout.Episode) ([]byte, error) {
	var w writer
	w.episode(e)
	return w.seal(kindEpisode)
}

// ReadEpisode reads what Episode has written.
func ReadEpisode(b []byte) (rollout.Episode, error) {
	r, err := open(b, kindEpisode)
	if err != nil {
		return rollout.Episode{}, fmt.Errorf("read episode: %w", err)
	}
	e := r.episode()
	if err := r.close(); err != nil {
		return rollout.Episode{}, fmt.Errorf("read episode: %w", err)
	}
	return e, nil
}

// Save packs a checkpoint.
func Save(c *rollout.Checkpoint) ([]byte, error) {
	var w writer
	w.int(int64(c.PhaseIndex))
	w.bytes(c.Game)
	w.episode(&c.Episode)
	return w.seal(kindCheckpoint)
}

// Load reads what Save has written.
func Load(b []byte) (rollout.Checkpoint, error) {
	r, err := open(b, kindCheckpoint)
	if err != nil {
		return rollout.Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	c := rollout.Checkpoint{PhaseIndex: int(r.int()), Game: r.bytes()}
	c.Episode = r.episode()
	if err := r.close(); err != nil {
		return rollout.Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

// Bytes packs opaque bytes, such as a game.
func Bytes(b []byte) ([]byte, error) {
	var w writer
	w.bytes(b)
	return w.seal(kindBytes)
}

// ReadBytes reads what Bytes has written.
func ReadBytes(b []byte) ([]byte, error) {
	r, err := open(b, kindBytes)
	if err != nil {
		return nil, fmt.Errorf("read bytes: %w", err)
	}
	out := r.bytes()
	if err := r.close(); err != nil {
		return nil, fmt.Errorf("read bytes: %w", err)
	}
	return out, nil
}

// The coders are made on first use and shared: both may be called from many goroutines.
var (
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(true))
	})
	decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxSize), zstd.WithDecoderConcurrency(0))
	})
)

// seal joins the columns and compresses them.
func (w *writer) seal(k kind) ([]byte, error) {
	if w.history.ids > maxPromptIDs {
		return nil, fmt.Errorf("%w: %d prompt token ids of at most %d", ErrTooLarge, w.history.ids, maxPromptIDs)
	}
	raw := w.join()
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(raw), MaxSize)
	}
	enc, err := encoder()
	if err != nil {
		return nil, fmt.Errorf("start zstd: %w", err)
	}
	return enc.EncodeAll(raw, []byte{magic, format, byte(k)}), nil
}

// open checks the header, decompresses and finds the columns.
func open(b []byte, want kind) (*reader, error) {
	if len(b) < 3 || b[0] != magic {
		return nil, fmt.Errorf("%w: no header", ErrCorrupt)
	}
	if kind(b[2]) != want {
		return nil, fmt.Errorf("%w: kind %d, want %d", ErrCorrupt, b[2], want)
	}
	if b[1] != format {
		return nil, fmt.Errorf("%w: format %d, want %d", ErrCorrupt, b[1], format)
	}
	dec, err := decoder()
	if err != nil {
		return nil, fmt.Errorf("start zstd: %w", err)
	}
	raw, err := dec.DecodeAll(b[3:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return split(raw)
}
