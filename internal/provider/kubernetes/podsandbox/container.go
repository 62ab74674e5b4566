//go:build linux

package podsandbox

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	core "k8s.io/api/core/v1"
)

// command is the process of a container: it enters the pod's network, makes mounts that nobody else sees, gives up what
// its security context denies, and becomes the container's command.
func (p *pod) command(c *core.Container, env []string) (*exec.Cmd, error) {
	image, ok := p.cfg.Images[c.Image]
	if !ok {
		return nil, fmt.Errorf("no image %s: -image names those that there are", c.Image)
	}
	rights, err := p.rights(c, image)
	if err != nil {
		return nil, err
	}
	words := image.Entrypoint
	if len(c.Command) > 0 {
		words = c.Command
	}
	words = append(append([]string{}, words...), c.Args...)
	for i, word := range words {
		words[i] = expand(word, env)
	}
	base := filepath.Join(p.dir, c.Name)
	root := filepath.Join(base, "root")
	for _, name := range []string{"root", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(base, name), 0o755); err != nil {
			return nil, err
		}
	}
	var script strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&script, format+"\n", args...) }
	line("mount -t overlay overlay -o lowerdir=%s,upperdir=%s/upper,workdir=%s/work %s", image.Root, base, base, root)
	line("mkdir -p %s/proc %s/dev %s/etc", root, root, root)
	line("mount --rbind /proc %s/proc; mount --rbind /dev %s/dev", root, root)
	p.bind(line, root, core.VolumeMount{MountPath: "/etc/hosts"}, filepath.Join(p.dir, "hosts"))
	for _, m := range c.VolumeMounts {
		p.bind(line, root, m, filepath.Join(p.folder(m.Name), m.SubPath))
	}
	if s := c.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
		line("mount -o remount,ro %s", root)
	}
	line("exec %s chroot --userspec=%s --groups=%s %s %s", rights.drop, rights.user, rights.groups, root, quote(words...))
	cmd := exec.Command("nsenter", "--net=/run/netns/"+p.network, "unshare", "--mount", "--propagation", "private",
		"sh", "-ec", script.String())
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}

// bind mounts a file or folder of this machine into a root.
func (p *pod) bind(line func(string, ...any), root string, m core.VolumeMount, from string) {
	from, to := quote(from), quote(root+m.MountPath)
	line("if [ -d %s ]; then mkdir -p %s; else mkdir -p $(dirname %s); [ -e %s ] || : >%s; fi", from, to, to, to, to)
	line("mount --bind %s %s", from, to)
	if m.ReadOnly {
		line("mount -o remount,bind,ro %s", to)
	}
}

// rights are what a security context leaves to a container.
type rights struct {
	drop         string // the program that gives up the others
	user, groups string
}

func (p *pod) rights(c *core.Container, image Image) (rights, error) {
	uid, gid, _ := strings.Cut(image.User, ":")
	pod, own := cmp.Or(p.manifest.Spec.SecurityContext, &core.PodSecurityContext{}), c.SecurityContext
	if own == nil {
		own = &core.SecurityContext{}
	}
	number := func(to *string, values ...*int64) {
		for _, v := range values {
			if v != nil {
				*to = strconv.FormatInt(*v, 10)
			}
		}
	}
	number(&uid, pod.RunAsUser, own.RunAsUser)
	number(&gid, pod.RunAsGroup, own.RunAsGroup)
	groups := gid
	number(&groups, pod.FSGroup)
	nonRoot := pod.RunAsNonRoot != nil && *pod.RunAsNonRoot || own.RunAsNonRoot != nil && *own.RunAsNonRoot
	if nonRoot && uid == "0" {
		return rights{}, fmt.Errorf("container has runAsNonRoot and image will run as root (%s)", c.Name)
	}
	r := rights{user: uid + ":" + gid, groups: groups, drop: "setpriv"}
	if a := own.AllowPrivilegeEscalation; a != nil && !*a {
		r.drop += " --no-new-privs"
	}
	if k := own.Capabilities; k != nil && len(k.Drop) > 0 { // those with which it becomes its user go with root
		r.drop += " --bounding-set=-all,+sys_chroot,+setuid,+setgid --inh-caps=-all"
	}
	if r.drop == "setpriv" {
		r.drop = ""
	}
	return r, nil
}

// inside runs a command in a container that runs.
func (p *pod) inside(c *core.Container, pid int, command []string, env []string) (*exec.Cmd, error) {
	rights, err := p.rights(c, p.cfg.Images[c.Image])
	if err != nil {
		return nil, err
	}
	uid, gid, _ := strings.Cut(rights.user, ":")
	words := append([]string{"--target", strconv.Itoa(pid), "--mount", "--net", "--root", "--setuid", uid, "--setgid", gid,
		"--"}, command...)
	cmd := exec.Command("nsenter", words...)
	cmd.Env = env
	return cmd, nil
}

// quote is words as a shell reads them.
func quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
