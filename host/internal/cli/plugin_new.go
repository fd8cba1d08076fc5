package cli

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// newPlugin holds the files of a fresh plugin, as templates.
//
//go:embed newplugin
var newPlugin embed.FS

const (
	sdkModule = "github.com/bulkhead-dev/bulkhead"
	sdkGo     = "1.26.0" // the Go that the SDK's module asks for
)

// pluginName keeps names fit for a file, a config block and the tools' prefix.
var pluginName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// pluginNew writes a plugin's module, ready to be built and tested.
func (a *app) pluginNew() *cobra.Command {
	var sdk string
	cmd := &cobra.Command{
		Use: "new NAME [DIR]", Short: "Write a new plugin: module, tool and test, ready to build", Args: takes("NAME", "[DIR]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if !pluginName.MatchString(name) {
				return exit{exitUsage, fmt.Errorf("%.60q is no name for a plugin: a lower-case letter, then up to 39 of a-z, 0-9 and -", name)}
			}
			dir := "bulkhead-plugin-" + name
			if len(args) == 2 {
				dir = args[1]
			}
			files, err := pluginFiles(name, sdk)
			if err != nil {
				return err
			}
			if err := writeNew(dir, files); err != nil {
				return failed(err)
			}
			if a.json {
				names := []string{}
				for _, f := range files {
					names = append(names, f.name)
				}
				return a.print(map[string]any{"name": name, "dir": dir, "files": names})
			}
			fmt.Fprintf(a.people, "wrote plugin %s to %s\n\n  cd %s\n  make && make test\n  bulkhead plugin test bulkhead-plugin-%s\n", name, dir, dir, name)
			return nil
		},
	}
	cmd.Flags().StringVar(&sdk, "sdk", "", "folder with the SDK's module, instead of the published one")
	return cmd
}

type file struct {
	name string
	text []byte
}

// pluginFiles are the files of a fresh plugin. With a folder of the SDK its
// checksums come along, so that nothing need be fetched that is there already.
func pluginFiles(name, sdk string) ([]file, error) {
	entries, err := newPlugin.ReadDir("newplugin")
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries {
		t, err := template.ParseFS(newPlugin, "newplugin/"+e.Name())
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, map[string]string{"Name": name}); err != nil {
			return nil, err
		}
		to := strings.TrimSuffix(e.Name(), ".tmpl")
		if to == "gitignore" { // as a file of that name it would act on the template
			to = ".gitignore"
		}
		files = append(files, file{to, text.Bytes()})
	}
	mod := new(modfile.File)
	if err := errors.Join(mod.AddModuleStmt("bulkhead-plugin-"+name), mod.AddGoStmt(sdkGo)); err != nil {
		return nil, err
	}
	switch released := release(); {
	case sdk != "":
		path, sums, err := sdkFolder(sdk)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(mod.AddRequire(sdkModule, "v0.0.0"), mod.AddReplace(sdkModule, "", path, "")); err != nil {
			return nil, err
		}
		files = append(files, file{"go.sum", sums})
	case released != "":
		if err := mod.AddRequire(sdkModule, released); err != nil {
			return nil, err
		}
	default: // what could not be built is not written
		return nil, failed(fmt.Errorf("this bulkhead (%s) was built from a folder, not from a released version, so there may be no published %s to build against\n  → with its source at hand, name it: --sdk FOLDER", version(), sdkModule))
	}
	mod.Cleanup()
	text, err := mod.Format()
	return append(files, file{"go.mod", text}), err
}

// release is the version of the published module this program was built from, or
// empty. A number that a build was given says nothing: only a module that was fetched
// has a checksum.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != sdkModule || info.Main.Sum == "" || !semver.IsValid(info.Main.Version) {
		return ""
	}
	return info.Main.Version
}

// sdkFolder checks that a folder is the SDK's module and gives its whole path and
// its checksums.
func sdkFolder(dir string) (path string, sums []byte, err error) {
	path, err = filepath.Abs(dir)
	if err != nil {
		return "", nil, exit{exitUsage, err}
	}
	text, err := os.ReadFile(filepath.Join(path, "go.mod"))
	if err != nil {
		return "", nil, failed(fmt.Errorf("--sdk: %w", err))
	}
	if m := modfile.ModulePath(text); m != sdkModule {
		return "", nil, failed(fmt.Errorf("--sdk: %s is the module %q, not %s", path, m, sdkModule))
	}
	sums, err = os.ReadFile(filepath.Join(path, "go.sum"))
	if err != nil {
		return "", nil, failed(fmt.Errorf("--sdk: %w", err))
	}
	return path, sums, nil
}

// writeNew writes files into a folder that is empty or not there yet; no file that
// exists is ever written to.
func writeNew(dir string, files []file) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s is not empty, nothing was written: name another folder", dir)
	}
	for _, f := range files {
		w, err := os.OpenFile(filepath.Join(dir, f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(0o644))
		if err != nil {
			return err
		}
		_, err = w.Write(f.text)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
	}
	return nil
}
