# installer
