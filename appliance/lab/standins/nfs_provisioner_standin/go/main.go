// Plays nfs-subdir-external-provisioner where no registry with its image can be reached: STAND-IN.
//
// The controller is the one of the real program, sig-storage-lib-external-provisioner; what differs
// is only which folder it makes. It does not prove the real program, and deletes nothing.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"path/filepath"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v8/controller"
)

const root = "/persistentvolumes"

type folders struct{ root, server, path string }

// Provision makes the folder of a claim, which every user may write, and its volume.
func (f folders) Provision(_ context.Context, asked controller.ProvisionOptions) (*core.PersistentVolume, controller.ProvisioningState, error) {
	claim := asked.PVC
	if claim.Spec.Selector != nil {
		return nil, controller.ProvisioningFinished, errors.New("a claim with a selector gets no new volume")
	}
	name := claim.Namespace + "-" + claim.Name + "-" + asked.PVName
	folder := filepath.Join(f.root, name)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	volume := &core.PersistentVolume{}
	volume.Name = asked.PVName
	volume.Spec = core.PersistentVolumeSpec{
		PersistentVolumeReclaimPolicy: *asked.StorageClass.ReclaimPolicy,
		AccessModes:                   claim.Spec.AccessModes,
		MountOptions:                  asked.StorageClass.MountOptions,
		Capacity:                      core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
	}
	volume.Spec.NFS = &core.NFSVolumeSource{Server: f.server, Path: filepath.Join(f.path, name)}
	return volume, controller.ProvisioningFinished, nil
}

// Delete is asked for volumes of policy Delete, which the appliance makes none of.
func (folders) Delete(context.Context, *core.PersistentVolume) error {
	return &controller.IgnoredError{Reason: "a stand-in that deletes nothing"}
}

func wanted(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("%s is not set", name)
	}
	return value
}

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	made := folders{root: root, server: wanted("NFS_SERVER"), path: wanted("NFS_PATH")}
	controller.NewProvisionController(
		client, wanted("PROVISIONER_NAME"), made, controller.LeaderElection(false),
	).Run(context.Background())
}
