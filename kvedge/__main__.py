"""`python -m kvedge`, and the first module of the built program: the same as the installed one.

Eleven helpers are found here, before anything else is loaded: they start in milliseconds and stay small because of
that. From a checkout the starter of containers and the resumed monitor have an interpreter of their own instead.
"""

import sys

if sys.argv[1:2] == ["container-starter"]:
    from kvedge.standalone.agent.container.container_starter import main as start_containers

    sys.exit(start_containers())
elif sys.argv[1:2] == ["warm-launchers"]:
    from kvedge.standalone.agent.warm.warm_parent import main as fork_launchers

    sys.exit(fork_launchers())
elif sys.argv[1:2] == ["monitor-resume"]:
    from kvedge.launcher.monitor import resume

    sys.exit(resume(sys.argv[2:]))
elif sys.argv[1:2] == ["launcher-probe"]:
    from kvedge.launcher.guest_probe import main as ask_guest

    sys.exit(ask_guest(sys.argv[2:]))
elif sys.argv[1:2] == ["launcher-share"]:
    from kvedge.launcher.shares.share_server import main as share_directory

    sys.exit(share_directory(sys.argv[2:]))
elif sys.argv[1:2] == ["launcher-virsh"]:
    from kvedge.launcher.virsh.virsh_command import main as show_domain

    sys.exit(show_domain(sys.argv[2:]))
elif sys.argv[1:2] == ["launcher-freezer"]:
    from kvedge.launcher.backup_freezer import main as freeze_guest

    sys.exit(freeze_guest(sys.argv[2:]))
elif sys.argv[1:2] == ["image-worker"]:
    from kvedge.storage.images.image_worker import main as get_image

    get_image()
elif sys.argv[1:2] == ["import-worker"]:
    from kvedge.storage.imports.import_worker import main as fill_claim

    fill_claim()
elif sys.argv[1:2] == ["export-server"]:
    from kvedge.storage.exports.export_worker import main as serve_claims

    serve_claims()
elif sys.argv[1:2] == ["backup-worker"]:
    from kvedge.storage.backups.backup_worker import main as carry_disks

    carry_disks()
elif sys.argv[1:2] == ["write-backup"]:
    from kvedge.storage.changed_blocks.backup_worker import main as save_disks

    save_disks()
else:
    from kvedge.cli.main import main

    main()
