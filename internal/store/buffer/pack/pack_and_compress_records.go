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
func Group(g *rollout.Group) ([]byte, error) { return packed(kindGroup, g, codec.group) }

// ReadGroup reads what Group has written.
func ReadGroup(b []byte) (*rollout.Group, error) {
	g := &rollout.Group{}
	if err := read(b, kindGroup, g, codec.group); err != nil {
		return nil, fmt.Errorf("read group: %w", err)
	}
	return g, nil
}

// Episode packs a finished episode.
func Episode(e *rollout.Episode) ([]byte, error) { return packed(kindEpisode, e, codec.episode) }

// ReadEpisode reads what Episode has written.
func ReadEpisode(b []byte) (rollout.Episode, error) {
	var e rollout.Episode
	if err := read(b, kindEpisode, &e, codec.episode); err != nil {
		return rollout.Episode{}, fmt.Errorf("read episode: %w", err)
	}
	return e, nil
}

// Save packs a checkpoint.
func Save(c *rollout.Checkpoint) ([]byte, error) { return packed(kindCheckpoint, c, codec.checkpoint) }

// Load reads what Save has written.
func Load(b []byte) (rollout.Checkpoint, error) {
	var c rollout.Checkpoint
	if err := read(b, kindCheckpoint, &c, codec.checkpoint); err != nil {
		return rollout.Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

func (c codec) checkpoint(of *rollout.Checkpoint) {
	integer(c, &of.PhaseIndex)
	c.bytes(&of.Game)
	c.episode(&of.Episode)
}

// Bytes packs opaque bytes, such as a game.
func Bytes(b []byte) ([]byte, error) { return packed(kindBytes, &b, codec.bytes) }

// ReadBytes reads what Bytes has written.
func ReadBytes(b []byte) ([]byte, error) {
	var out []byte
	if err := read(b, kindBytes, &out, codec.bytes); err != nil {
		return nil, fmt.Errorf("read bytes: %w", err)
	}
	return out, nil
}

func packed[T any](k kind, v *T, fields func(codec, *T)) ([]byte, error) {
	var w writer
	fields(codec{w: &w}, v)
	return w.seal(k)
}

func read[T any](b []byte, k kind, v *T, fields func(codec, *T)) error {
	r, err := open(b, k)
	if err != nil {
		return err
	}
	fields(codec{r: r}, v)
	return r.close()
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
