package connections

// Secret is a text that does not show itself.
type Secret string

// Reveal is the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text from logs.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the text from files.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
