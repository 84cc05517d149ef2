package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v8/controller"
)

func asked() controller.ProvisionOptions {
	retain := core.PersistentVolumeReclaimRetain
	claim := &core.PersistentVolumeClaim{ObjectMeta: meta.ObjectMeta{Namespace: "team-a", Name: "data"}}
	claim.Spec.AccessModes = []core.PersistentVolumeAccessMode{core.ReadWriteMany}
	claim.Spec.Resources.Requests = core.ResourceList{core.ResourceStorage: resource.MustParse("5Gi")}
	class := &storage.StorageClass{ReclaimPolicy: &retain, MountOptions: []string{"nfsvers=3"}}
	return controller.ProvisionOptions{PVC: claim, PVName: "pvc-1", StorageClass: class}
}

func TestAClaimGetsAFolderAndAVolumeWithTheOptionsOfItsClass(t *testing.T) {
	made := folders{root: t.TempDir(), server: "198.51.100.4", path: "/srv/runai"}
	volume, _, err := made.Provision(context.Background(), asked())
	if err != nil {
		t.Fatal(err)
	}
	if got := volume.Spec.NFS.Path; got != "/srv/runai/team-a-data-pvc-1" {
		t.Errorf("the volume is %s", got)
	}
	if got := volume.Spec.MountOptions; len(got) != 1 || got[0] != "nfsvers=3" {
		t.Errorf("it is mounted with %v", got)
	}
	if volume.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimRetain {
		t.Error("a deleted claim would lose its data")
	}
	found, err := os.Stat(filepath.Join(made.root, "team-a-data-pvc-1"))
	if err != nil || found.Mode().Perm() != 0o777 {
		t.Errorf("its folder: %v, %v", found, err)
	}
}

func TestAClaimWithASelectorGetsNoVolume(t *testing.T) {
	wish := asked()
	wish.PVC.Spec.Selector = &meta.LabelSelector{}
	if _, _, err := (folders{root: t.TempDir()}).Provision(context.Background(), wish); err == nil {
		t.Error("it got one")
	}
}

func TestNothingIsDeleted(t *testing.T) {
	var ignored *controller.IgnoredError
	if err := (folders{}).Delete(context.Background(), nil); !errors.As(err, &ignored) {
		t.Errorf("a deletion was %v", err)
	}
}
