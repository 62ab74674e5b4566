package rollout

import "testing"

// FuzzParseEpisodeRef: what is read as an episode's name is written as one, and names a run that can be.
func FuzzParseEpisodeRef(f *testing.F) {
	for _, name := range []string{"demo/12/3", "demo/0/0", "a.b-c_d/9223372036854775807/1", "demo/-1/0", "demo/+1/0",
		"Demo/1/2", "demo/1", "demo/1/2/FRANCE", "//", "demo/01/1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		ref, err := ParseEpisodeRef(name)
		if err != nil {
			return
		}
		if again, err := ParseEpisodeRef(ref.String()); err != nil || again != ref || ref.Run.Validate() != nil ||
			ref.Seq < 0 || ref.Sample < 0 {
			t.Errorf("%q was read as %+v, and %s as %+v: %v", name, ref, ref, again, err)
		}
	})
}
