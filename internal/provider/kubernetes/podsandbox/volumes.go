//go:build linux

package podsandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
)

// fillVolumes writes what is in the pod's volumes, as it is now: a file that has changed is replaced as a kubelet does
// it, all of a volume's files at once.
func (p *pod) fillVolumes(ctx context.Context) error {
	for _, v := range p.manifest.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.HostPath != nil {
			if err := p.findFolder(ctx, v); err != nil {
				return fmt.Errorf("volume %s: %w", v.Name, err)
			}
			continue
		}
		files, err := p.contents(ctx, v)
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		dir := filepath.Join(p.dir, "volumes", v.Name)
		if files == nil {
			err = p.emptyFolder(dir)
		} else {
			err = p.publish(dir, files)
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

// findFolder is for a volume that outlives the pod: a folder of this machine, by itself or as a volume of type hostPath
// that a claim is bound to.
func (p *pod) findFolder(ctx context.Context, v core.Volume) error {
	if p.folders[v.Name] != "" {
		return nil
	}
	host := v.HostPath
	if claimed := v.PersistentVolumeClaim; claimed != nil {
		var claim core.PersistentVolumeClaim
		var volume core.PersistentVolume
		if err := p.api.Get().Namespace(p.manifest.Namespace).Resource("persistentvolumeclaims").Name(claimed.ClaimName).
			Do(ctx).Into(&claim); err != nil {
			return err
		}
		if err := p.api.Get().Resource("persistentvolumes").Name(claim.Spec.VolumeName).Do(ctx).Into(&volume); err != nil {
			return err
		}
		host = volume.Spec.HostPath
	}
	if host == nil {
		return fmt.Errorf("only volumes of type hostPath are known here")
	}
	p.folders[v.Name] = host.Path
	return os.MkdirAll(host.Path, 0o777)
}

// folder is where a volume's files are on this machine.
func (p *pod) folder(volume string) string {
	if place := p.folders[volume]; place != "" {
		return place
	}
	return filepath.Join(p.dir, "volumes", volume)
}

func (p *pod) emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o777|os.ModeSetgid); err != nil {
		return err
	}
	return os.Chown(dir, 0, p.fsGroup())
}

func (p *pod) fsGroup() int {
	if s := p.manifest.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		return int(*s.FSGroup)
	}
	return 0
}

// contents are a volume's files; nil: it is an empty folder that the pod writes to.
func (p *pod) contents(ctx context.Context, v core.Volume) (map[string][]byte, error) {
	switch {
	case v.EmptyDir != nil:
		return nil, nil
	case v.ConfigMap != nil:
		data, err := p.configMap(ctx, v.ConfigMap.Name)
		return selected(data, v.ConfigMap.Items, err)
	case v.Secret != nil:
		data, err := p.secret(ctx, v.Secret.SecretName)
		return selected(data, v.Secret.Items, err)
	case v.Projected != nil:
		return p.projected(ctx, v.Projected)
	}
	return nil, fmt.Errorf("nothing here knows this kind of volume")
}

// selected is what a volume's items name of an object; all of it, if there are none.
func selected(data map[string][]byte, items []core.KeyToPath, err error) (map[string][]byte, error) {
	if err != nil || len(items) == 0 {
		return data, err
	}
	files := map[string][]byte{}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			return nil, fmt.Errorf("references non-existent key: %s", item.Key)
		}
		files[item.Path] = value
	}
	return files, nil
}

func (p *pod) projected(ctx context.Context, v *core.ProjectedVolumeSource) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, source := range v.Sources {
		var some map[string][]byte
		var err error
		switch {
		case source.ConfigMap != nil:
			some, err = p.configMap(ctx, source.ConfigMap.Name)
			some, err = selected(some, source.ConfigMap.Items, err)
		case source.Secret != nil:
			some, err = p.secret(ctx, source.Secret.Name)
			some, err = selected(some, source.Secret.Items, err)
		case source.ServiceAccountToken != nil:
			some, err = p.token(ctx, source.ServiceAccountToken)
		case source.DownwardAPI != nil:
			some = map[string][]byte{}
			for _, item := range source.DownwardAPI.Items {
				var text string
				text, err = p.field(item.FieldRef.FieldPath)
				some[item.Path] = []byte(text)
			}
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(files, some)
	}
	return files, nil
}

// token is one of the pod's service account that ends with the pod; it is asked for again when four fifths of its time
// are over.
func (p *pod) token(ctx context.Context, v *core.ServiceAccountTokenProjection) (map[string][]byte, error) {
	if time.Now().After(p.tokenUntil) {
		seconds := int64(3600)
		if v.ExpirationSeconds != nil {
			seconds = *v.ExpirationSeconds
		}
		body := fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":%d,
			"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}}}`,
			seconds, p.manifest.Name, p.manifest.UID)
		answer, err := p.api.Post().Namespace(p.manifest.Namespace).Resource("serviceaccounts").
			Name(p.manifest.Spec.ServiceAccountName).SubResource("token").
			SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		var request struct{ Status struct{ Token string } }
		if err := json.Unmarshal(answer, &request); err != nil {
			return nil, err
		}
		p.tokenText = request.Status.Token
		p.tokenUntil = time.Now().Add(time.Duration(seconds) * time.Second * 4 / 5)
	}
	return map[string][]byte{v.Path: []byte(p.tokenText)}, nil
}

func (p *pod) configMap(ctx context.Context, name string) (map[string][]byte, error) {
	var it core.ConfigMap
	err := p.api.Get().Namespace(p.manifest.Namespace).Resource("configmaps").Name(name).Do(ctx).Into(&it)
	data := map[string][]byte{}
	for key, value := range it.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, it.BinaryData)
	return data, err
}

func (p *pod) secret(ctx context.Context, name string) (map[string][]byte, error) {
	var it core.Secret
	err := p.api.Get().Namespace(p.manifest.Namespace).Resource("secrets").Name(name).Do(ctx).Into(&it)
	return it.Data, err
}

// publish puts files into a folder as kubelets do: a folder of this moment, ..data, which names it, and a link for each
// file, so that all of them change at once.
func (p *pod) publish(dir string, files map[string][]byte) error {
	data := filepath.Join(dir, "..data")
	same := true
	for name, content := range files {
		was, err := os.ReadFile(filepath.Join(data, name))
		same = same && err == nil && string(was) == string(content)
	}
	if same && len(files) > 0 {
		return nil
	}
	before, _ := os.Readlink(data)
	moment := "..moment_" + strconv.FormatInt(time.Now().UnixNano(), 10)
	if err := os.MkdirAll(filepath.Join(dir, moment), 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, moment, name)
		if err := os.WriteFile(path, files[name], 0o644); err != nil { // the default of ConfigMaps and Secrets
			return err
		}
		if err := os.Chown(path, 0, p.fsGroup()); err != nil {
			return err
		}
		link := filepath.Join(dir, name)
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := os.Symlink(moment, data+"_new"); err != nil {
		return err
	}
	if err := os.Rename(data+"_new", data); err != nil {
		return err
	}
	if before != "" {
		return os.RemoveAll(filepath.Join(dir, before))
	}
	return nil
}
