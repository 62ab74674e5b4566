package turncost

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// sample is one stack of a CPU profile: function names, the innermost first, and its seconds.
type sample struct {
	stack []string
	sec   float64
}

// maxProfile bounds a profile, unpacked.
const maxProfile = 64 << 20

// Fields of profile.proto that a CPU profile is read by.
const (
	profileSample, profileLocation, profileFunction, profileString = 2, 4, 5, 6
	sampleLocation, sampleValue                                    = 1, 2
	locationID, locationLine                                       = 1, 4
	lineFunction                                                   = 1
	functionID, functionName                                       = 1, 2
)

var errProfile = errors.New("not a CPU profile of the Go runtime")

// readProfile reads a CPU profile as the Go runtime writes it: the second value of a sample is nanoseconds.
func readProfile(packed []byte) ([]sample, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProfile, err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxProfile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProfile, err)
	}
	p := profile{functions: map[uint64]uint64{}, locations: map[uint64][]uint64{}}
	if err := eachField(raw, p.field); err != nil {
		return nil, err
	}
	return p.named()
}

// profile is a profile in numbers.
type profile struct {
	strings   []string
	functions map[uint64]uint64   // name by function
	locations map[uint64][]uint64 // functions by location, the innermost first
	samples   []numbered
}

type numbered struct{ locations, values []uint64 }

func (p *profile) field(number protowire.Number, v uint64, b []byte) error {
	switch number {
	case profileString:
		p.strings = append(p.strings, string(b))
	case profileFunction:
		var id, name uint64
		err := eachField(b, func(n protowire.Number, v uint64, _ []byte) error {
			switch n {
			case functionID:
				id = v
			case functionName:
				name = v
			}
			return nil
		})
		p.functions[id] = name
		return err
	case profileLocation:
		return p.location(b)
	case profileSample:
		var s numbered
		err := eachField(b, func(n protowire.Number, v uint64, b []byte) error {
			switch n {
			case sampleLocation:
				s.locations = appendNumbers(s.locations, v, b)
			case sampleValue:
				s.values = appendNumbers(s.values, v, b)
			}
			return nil
		})
		p.samples = append(p.samples, s)
		return err
	}
	return nil
}

func (p *profile) location(b []byte) error {
	var id uint64
	var functions []uint64
	err := eachField(b, func(n protowire.Number, v uint64, b []byte) error {
		switch n {
		case locationID:
			id = v
		case locationLine:
			return eachField(b, func(n protowire.Number, v uint64, _ []byte) error {
				if n == lineFunction {
					functions = append(functions, v)
				}
				return nil
			})
		}
		return nil
	})
	p.locations[id] = functions
	return err
}

// named puts names in the place of numbers.
func (p *profile) named() ([]sample, error) {
	samples := make([]sample, 0, len(p.samples))
	for _, s := range p.samples {
		if len(s.values) != 2 {
			return nil, fmt.Errorf("%w: %d values in a sample", errProfile, len(s.values))
		}
		named := sample{sec: float64(s.values[1]) / 1e9}
		for _, location := range s.locations {
			for _, function := range p.locations[location] {
				name := p.functions[function]
				if name >= uint64(len(p.strings)) {
					return nil, fmt.Errorf("%w: a function without a name", errProfile)
				}
				named.stack = append(named.stack, p.strings[name])
			}
		}
		samples = append(samples, named)
	}
	return samples, nil
}

// eachField calls do with the fields of a message: their number, and their number or bytes.
func eachField(b []byte, do func(n protowire.Number, v uint64, b []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", errProfile, protowire.ParseError(n))
		}
		b = b[n:]
		var v uint64
		var inner []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			inner, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errProfile, protowire.ParseError(n))
		}
		b = b[n:]
		if err := do(number, v, inner); err != nil {
			return err
		}
	}
	return nil
}

// appendNumbers appends a repeated number, which is packed or not.
func appendNumbers(to []uint64, v uint64, packed []byte) []uint64 {
	if packed == nil {
		return append(to, v)
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return to
		}
		to, packed = append(to, v), packed[n:]
	}
	return to
}
