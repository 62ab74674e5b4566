package enginemodel

import (
	"cmp"
	"embed"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
)

//go:embed profiles/*.json
var builtIn embed.FS

// DefaultProfile is the profile that is meant where none is named.
const DefaultProfile = "a100-80gb"

// maxProfileBytes is many times what a profile needs.
const maxProfileBytes = 256 << 10

// Profiles names the profiles that come with the program.
func Profiles() []string {
	entries, err := builtIn.ReadDir("profiles")
	if err != nil {
		panic(err) // It is part of the program.
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return names
}

// LoadProfile is a profile that comes with the program, by its name, or the one in a file, by its path: what has a
// slash or ends in .json is a path. Empty means DefaultProfile. Every fault of a file is reported, with its line.
func LoadProfile(nameOrPath string) (*Profile, error) {
	nameOrPath = cmp.Or(nameOrPath, DefaultProfile)
	if strings.ContainsAny(nameOrPath, `/\`) || strings.HasSuffix(nameOrPath, ".json") {
		return loadFile(nameOrPath)
	}
	file := strings.ToLower(nameOrPath) + ".json"
	data, err := builtIn.ReadFile(path.Join("profiles", file))
	if err != nil {
		return nil, unknownProfile(nameOrPath)
	}
	return ReadProfile(file, data)
}

func unknownProfile(name string) error {
	known := Profiles()
	hint := ""
	if near := settings.Nearest(name, known); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return fmt.Errorf("there is no hardware profile %q%s; there are %s, and a file is named by a path such as "+
		"./my-gpu.json", name, hint, strings.Join(known, ", "))
}

func loadFile(file string) (*Profile, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxProfileBytes {
		err = fmt.Errorf("%s: %d bytes are more than a profile has; the limit is %d", file, info.Size(), maxProfileBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("hardware profile: %w", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("hardware profile: %w", err)
	}
	return ReadProfile(file, data)
}

// ReadProfile reads a profile strictly: an unknown key, a missing figure, a figure without a source, and a value that
// is impossible, by itself or by physics, is a fault. The error has all of them, each with its line in the file.
func ReadProfile(file string, data []byte) (*Profile, error) {
	p := &Profile{}
	d := document.Open(keys, "hardware profile "+file, data, p)
	if d.Readable() {
		d.Add(p.check(d.Reading())...)
	}
	if d.Err() == nil {
		d.Add(p.ceilings()...)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return p, nil
}
